"""Remove reductions of single elements, also where that brings back the sign of a zero."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.eliminate.eliminate_reduce import rules_of_reductions
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fast-math")
class EliminateReduceOfFloats(Transformation, RewriteRuleSetPass):
    """Remove reductions over axes of size one, or over no axes, of any type.

    Rewrites: ``ReduceSum(x)``, and so ``ReduceMax``, ``ReduceMean``, ``ReduceMin``, ``ReduceProd`` → ``x``, or
              ``Squeeze(x)`` if the axes are not kept.
    Refuses:  axes that are computed, or whose size is not known to be one; norms and logarithms, which change even a
              single element; all but ``ReduceMax`` and ``ReduceMin`` of 64-bit integers, which ONNX Runtime rounds.
    Exactness: exact by the standard; ONNX Runtime may make ``0.0`` of ``-0.0`` in a sum, so that signs of zeros may
              differ from those of the model before.
    """

    needs = ("shape-inference",)
    fast_math = ("nsz",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of ``eliminate-reduce``, which then mind no signs."""
        return rules_of_reductions(signs_matter=False)
