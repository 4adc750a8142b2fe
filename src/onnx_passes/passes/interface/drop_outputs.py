"""Remove outputs of a model."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.errors import PassFailedError
from onnx_passes.passes.interface.outputs import ChoosesOutputs
from onnx_passes.passes.interface.values import named


@passes.verify.equality
@passes.register(tags=("interface",))
class DropOutputs(ChoosesOutputs):
    """Remove outputs of a model, and the parts on which only they depend.

    Rewrites: with ``names=[z]`` the model ``g (x) => (y, z) { y = Relu(x) z = Neg(x) }`` → ``g (x) => (y) {…}``.
    Refuses:  names that no output has, patterns; to remove every output. Inputs stay, even if unused.
    Exactness: bit-exact for the outputs that stay.
    """

    followed_by = ("remove-unused",)

    def wanted(self, model: ir.Model) -> list[ir.Value]:
        """Return the outputs that are not named."""
        outputs = {str(value.name): value for value in model.graph.outputs}
        dropped = {named(name, outputs, "output") for name in self.names}
        kept = [value for value in model.graph.outputs if value not in dropped]
        if not kept:
            raise PassFailedError("no output would be left", hint="a model must return something: keep one")
        return kept
