"""Add interior values to the outputs of a model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.interface.outputs import ChoosesOutputs
from onnx_passes.passes.interface.values import named, values_of


@passes.verify.equality
@passes.register(tags=("interface",))
class AddOutputs(ChoosesOutputs):
    """Make interior values of the graph outputs of the model, after the existing ones.

    Rewrites: with ``names=[a]`` the model ``g (x) => (y) { a = Relu(x) y = Neg(a) }`` → ``g (x) => (y, a) {…}``; types
              and shapes are inferred.
    Refuses:  names that no value of the graph has, patterns, inputs and constants.
    Exactness: bit-exact: new outputs are the values inside the model.
    """

    needs = ("unique-names", "shape-inference")

    def wanted(self, model: ir.Model) -> list[ir.Value]:
        """Return the outputs, followed by the named values."""
        known = values_of(model)
        return list(dict.fromkeys((*model.graph.outputs, *(named(name, known, "value") for name in self.names))))
