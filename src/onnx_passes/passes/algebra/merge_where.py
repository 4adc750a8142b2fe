"""Make one of two selections with the same condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.algebra.evidence import vanishes_into
from onnx_passes.passes.eliminate.evidence import is_integral
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class MergeWhere(Transformation, RewriteRuleSetPass):
    """Drop what a selection never takes from another one with the same condition, of anything but floats.

    Rewrites: ``Where(c, Where(c, x, z), y)`` → ``Where(c, x, y)``; ``Where(c, x, Where(c, z, y))`` →
              ``Where(c, x, y)``.
    Refuses:  ``z`` that may widen the result; floats, of which ONNX Runtime makes ``0.0`` of ``-0.0`` in some of the
              loops that broadcast (``merge-where-fast`` does not mind).
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["int32", "int64", "uint8"]}

    def rules(self) -> Sequence[Rule]:
        """Return the rules for both branches."""
        return _rules(signs_matter=True)


@passes.verify.tolerance
@passes.register("fast-math")
class MergeWhereFast(Transformation, RewriteRuleSetPass):
    """Drop what a selection never takes from another one with the same condition, of any type.

    Rewrites: what ``merge-where`` rewrites, also of floats.
    Refuses:  what may widen the result.
    Exactness: exact by the standard; signs of zeros may differ from those that ONNX Runtime made before.
    """

    needs = ("shape-inference",)
    fast_math = ("nsz",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for both branches."""
        return _rules(signs_matter=False)


def _rules(*, signs_matter: bool) -> list[Rule]:
    def check(op: Match, c: ir.Value, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        if signs_matter and not (is_integral(x) or x.dtype == ir.DataType.STRING):
            return no("the sign of a zero may change", at=x)
        return yes if vanishes_into(z, c, x, y) else no("what is never taken may widen the result", at=z)

    return [
        Rule(_in_first, _select, check, name="WhereInFirst", forks="duplicate"),
        Rule(_in_second, _select, check, name="WhereInSecond", forks="duplicate"),
    ]


def _in_first(op: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
    return op.Where(c, op.Where(c, x, z), y)


def _in_second(op: Any, c: Any, x: Any, y: Any, z: Any) -> Any:
    return op.Where(c, x, op.Where(c, z, y))


def _select(op: Any, c: ir.Value, x: ir.Value, y: ir.Value) -> Any:
    return op.Where(c, x, y)
