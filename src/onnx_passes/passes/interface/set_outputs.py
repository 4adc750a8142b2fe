"""Set the outputs of a model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.interface.outputs import ChoosesOutputs
from onnx_passes.passes.interface.values import named, values_of


@passes.verify.equality
@passes.register(tags=("interface",))
class SetOutputs(ChoosesOutputs):
    """Set the outputs of a model to the named values, in this order.

    Rewrites: with ``names=[z, a]`` the model ``g (x) => (y, z) {…}`` → ``g (x) => (z, a) {…}``, where ``a`` is any
              value of the graph; parts on which only removed outputs depend are removed.
    Refuses:  names that no value of the graph has, patterns, inputs and constants.
    Exactness: bit-exact: outputs are the values inside the model.
    """

    needs = ("unique-names", "shape-inference")
    followed_by = ("remove-unused",)

    def wanted(self, model: ir.Model) -> list[ir.Value]:
        """Return the named values."""
        known = values_of(model)
        return [named(name, known, "value") for name in self.names]
