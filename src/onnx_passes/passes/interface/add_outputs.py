"""Return values from inside a model, too."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.interface.outputs import ChoosesOutputs
from onnx_passes.passes.interface.values import named, values_of


@passes.verify.equality
@passes.register(tags=("interface",))
class AddOutputs(ChoosesOutputs):
    """Make values inside the graph outputs of the model, behind those that it has.

    Rewrites: with ``names=[a]`` the model ``g (x) => (y) { a = Relu(x) y = Neg(a) }`` → ``g (x) => (y, a) {…}``; types
              and shapes are those that shape inference finds.
    Refuses:  names that no value of the graph has, patterns, inputs and constants.
    Exactness: bit-exact: new outputs are what these values hold inside the model.
    """

    needs = ("unique-names", "shape-inference")

    def wanted(self, model: ir.Model) -> list[ir.Value]:
        """Return the outputs, and the values that are named."""
        known = values_of(model)
        return list(dict.fromkeys((*model.graph.outputs, *(named(name, known, "value") for name in self.names))))
