"""Say what a model returns."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.interface.outputs import ChoosesOutputs
from onnx_passes.passes.interface.values import named, values_of


@passes.verify.equality
@passes.register(tags=("interface",))
class SetOutputs(ChoosesOutputs):
    """Let a model return the values that are named, in this order, and nothing else.

    Rewrites: with ``names=[z, a]`` the model ``g (x) => (y, z) {…}`` → ``g (x) => (z, a) {…}``, where ``a`` is any
              value of the graph; what only other outputs need is removed.
    Refuses:  names that no value of the graph has, patterns, inputs and constants.
    Exactness: bit-exact: outputs are what these values hold inside the model.
    """

    needs = ("unique-names", "shape-inference")
    followed_by = ("remove-unused",)

    def wanted(self, model: ir.Model) -> list[ir.Value]:
        """Return the values that are named."""
        known = values_of(model)
        return [named(name, known, "value") for name in self.names]
