"""Simplify a model: the one-word pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass

_ROUND = ", ".join(
    (
        "shape-inference",
        "eliminate-zero-state",
        "fold-constants{max-size=64MiB}",
        "together(eliminate, fuse)",
        "deduplicate-initializers",
        "eliminate-common-subexpression",
        "remove-unused",
    )
)


@passes.verify.tolerance
@passes.register(tags=("simplify",))
class Simplify(ComposePass):
    """Simplify a model: what is constant is computed, what does nothing or is there twice goes, what belongs is fused.

    Rewrites: ``shape-inference, eliminate-zero-state, fold-constants, together(eliminate, fuse),
              deduplicate-initializers, eliminate-common-subexpression, remove-unused`` until nothing changes, then
              ``cleanup``; functions are inlined first.
    Refuses:  to touch the interface, except that weights of models of IR version 3 are no longer inputs, which nobody
              could set anyway; what its members refuse.
    Exactness: tolerance: fusing changes rounding and, as the flags of these passes say, where something overflows on
              the way; all else is bit-exact.
    """

    passes = (
        "remove-initializers-from-inputs{only-old=true}",
        "inline-functions",
        "remove-unused",
        f"fixpoint{{max=8}}({_ROUND})",
        "cleanup",
    )
