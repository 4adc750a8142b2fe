"""Remove selections that are decided, also where that brings back the sign of a zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.eliminate.eliminate_where import EliminateWhere, rules_of_where
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fast-math")
class EliminateWhereOfFloats(Transformation, RewriteRuleSetPass):
    """Remove Where that always selects the same, of any type.

    Rewrites: ``Where(true, x, y)`` → ``x``; ``Where(false, x, y)`` → ``y``; ``Where(c, x, x)`` → ``x``;
              ``Where(Not(c), x, y)`` → ``Where(c, y, x)``.
    Refuses:  conditions that are computed, mixed or may be overridden; what is selected, if the condition or the
              other choice may widen it.
    Exactness: exact by the standard; ONNX Runtime makes ``0.0`` of ``-0.0`` where the first choice is selected, so
              that signs of zeros may differ from those of the model before.
    """

    needs = ("shape-inference",)
    fast_math = ("nsz",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = EliminateWhere.fuzz_hints

    def rules(self) -> Sequence[Rule]:
        """Return the rules of ``eliminate-where``, which then mind no signs."""
        return rules_of_where(signs_matter=False)
