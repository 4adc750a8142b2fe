"""Write the division by a constant as a multiplication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import is_constant
from onnx_passes.passes.algebra.evidence import held, is_float, limits_of, owned_constant, wide
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class ConvertDiv(Transformation, RewriteRuleSetPass):
    """Multiply by the reciprocal of a power of two instead of dividing, so that products have one form.

    Rewrites: ``x / c`` → ``x * (1 / c)`` of floats.
    Refuses:  integers; constants that a caller may override; large ones that others use, too; any element that is not
              a power of two, or whose reciprocal is not a normal number.
    Exactness: bit-exact: both are the same real number, rounded once.
    """

    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [2.0, -0.5, [4.0], [0.25], 1.0, 3.0]}}

    def rules(self) -> Sequence[Rule]:
        """Return the rule for powers of two."""
        return [_rule(exact=True)]


@passes.verify.tolerance
@passes.register("algebraic")
class ConvertDivRounding(Transformation, RewriteRuleSetPass):
    """Multiply by the rounded reciprocal of a constant instead of dividing.

    Rewrites: ``x / c`` → ``x * (1 / c)`` of floats.
    Refuses:  integers; constants that a caller may override; large ones that others use, too; any element that is
              zero or not finite, or whose reciprocal is not a normal number.
    Exactness: rounding.
    """

    fast_math = ("reassoc",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [3.0, -0.7, [1e3], [0.1], 7.0]}}

    def rules(self) -> Sequence[Rule]:
        """Return the rule for all numbers."""
        return [_rule(exact=False)]


def _reciprocal(array: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(1.0 / wide(array)).astype(array.dtype)


def _is_normal(array: np.ndarray) -> bool:
    numbers = np.abs(wide(array))
    return bool((np.isfinite(numbers) & (numbers >= float(limits_of(array).smallest_normal))).all())


def _rule(*, exact: bool) -> Rule:
    def pattern(op: Any, x: Any, c: Any) -> Any:
        return op.Div(x, c)

    def check(op: Match, x: ir.Value, c: ir.Value) -> Any:
        if not is_float(c):
            return no("integers are divided with a remainder", at=c)
        divisor = owned_constant(c)
        if divisor is None or is_constant(x):
            return no("the divisor is not a constant of its own", at=c)
        if not (_is_normal(divisor) and _is_normal(_reciprocal(divisor))):
            return no("the divisor or its reciprocal is not a normal number", at=c)
        if exact and (np.abs(np.frexp(wide(divisor))[0]) != 0.5).any():
            return no("the divisor is not a power of two", at=c)
        return yes

    def rewrite(op: Any, x: ir.Value, c: ir.Value) -> Any:
        return op.Mul(x, _reciprocal(held(c)))

    return Rule(pattern, rewrite, check, name="Div")
