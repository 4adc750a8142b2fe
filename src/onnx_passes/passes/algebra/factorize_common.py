"""Take a common operand out of a sum of products, or whatever distributes like that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.traits import TRAITS
from onnx_passes.passes.algebra.evidence import is_discrete, is_float
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_LAWS = tuple(
    (outer, inner)
    for inner, traits in TRAITS.standard().items()
    if traits.commutative and traits.arity == 2
    for outer in traits.distributes_over
)


@passes.verify.equality
@passes.register("factorize")
class FactorizeCommon(Transformation, RewriteRuleSetPass):
    """Take a common operand of integers or booleans out.

    Rewrites: ``x * z + y * z`` → ``(x + y) * z``, and so for each operator that distributes over another: ``Mul`` over
              ``Add`` and ``Sub``, ``And`` over ``Or`` and ``Xor``, ``Or`` over ``And``, and those on bits.
    Refuses:  floats; ``Div``, which rounds; inner results that others use.
    Exactness: bit-exact; integers wrap around.
    """

    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["int32", "int64", "int8", "uint8", "bool"]}

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each law of distribution."""
        return [_rule(outer, inner, is_discrete) for outer, inner in _LAWS]


@passes.verify.tolerance
@passes.register("fast-math")
class FactorizeCommonFast(Transformation, RewriteRuleSetPass):
    """Take a common factor of floats out.

    Rewrites: ``x * z + y * z`` → ``(x + y) * z``, also with ``Sub``.
    Refuses:  inner results that others use.
    Exactness: rounding; what overflows on the way, and only there, may be finite now, or the other way round.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"dtypes": ["float32", "float64", "float16"]}

    def rules(self) -> Sequence[Rule]:
        """Make a rule for each law on floats."""
        return [_rule(outer, inner, is_float) for outer, inner in _LAWS if inner == "Mul"]


def _rule(outer: str, inner: str, applies: Callable[[ir.Value], bool]) -> Rule:
    def pattern(op: Any, x: Any, y: Any, z: Any) -> Any:
        build = getattr(op, inner)
        return getattr(op, outer)(build(x, z), build(y, z))

    def check(op: Match, z: ir.Value) -> Any:
        return yes if applies(z) else no("the type is that of another pass", at=z)

    def rewrite(op: Any, x: ir.Value, y: ir.Value, z: ir.Value) -> Any:
        return op.op(inner, op.op(outer, x, y), z)

    return Rule(pattern, rewrite, check, name=f"{outer}Of{inner}s")
