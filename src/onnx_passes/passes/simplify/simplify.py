"""The pipeline that simplifies a model."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass

_ROUND = ", ".join(
    (
        "eliminate-zero-state",
        "fold-constants{max-size=64MiB}",
        "simplify-rules",
        "deduplicate-initializers",
        "eliminate-common-subexpression",
        "remove-unused",
        "shape-inference{gaps-only=true}",
    )
)


@passes.verify.tolerance
@passes.register(tags=("simplify",))
class Simplify(ComposePass):
    """Simplify a model: fold constants, remove redundant and duplicate nodes, and fuse operators.

    Rewrites: ``eliminate-zero-state, fold-constants, simplify-rules, deduplicate-initializers,
              eliminate-common-subexpression, remove-unused`` until nothing changes, then ``convert-skip-to-sum`` and
              ``cleanup``; before that, functions are inlined, constants are lifted and shapes are inferred.
    Refuses:  to change the interface, except that weights of models of IR version 3 are no longer inputs, which no
              caller could set anyway; the cases that its members refuse.
    Exactness: tolerance: fusing changes rounding and, as their flags declare, intermediate
              overflow; everything else is bit-exact.
    """

    passes = (
        "remove-initializers-from-inputs{only-old=true}",
        "inline-functions",
        "lift-constants",
        "remove-unused",
        f"fixpoint{{max=8}}({_ROUND})",
        "convert-skip-to-sum",
        "cleanup",
    )
