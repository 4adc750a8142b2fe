"""Write squares as products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import constant_tensor, is_constant
from onnx_passes.passes.algebra.evidence import is_float
from onnx_passes.passes.eliminate.evidence import holds_only, keeps_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.equality
@passes.register("algebraic")
class ConvertPow(Transformation, RewriteRuleSetPass):
    """Multiply a value with itself instead of raising it to the second power.

    Rewrites: ``Pow(x, 2)`` → ``x * x``.
    Refuses:  integers, whose powers a runtime may compute as floats; other exponents; exponents of several elements,
              for which a power may be rounded differently; exponents that a caller may override, or whose shape may
              widen ``x``.
    Exactness: bit-exact: a runtime computes a square as this product.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = {"constants": {"c": [2, [2], [[2]], 3]}}

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        return [Rule(_pattern, _rewrite, _check, name="Pow")]


def _pattern(op: Any, x: Any, c: Any) -> Any:
    return op.Pow(x, c, _outputs=["result"])


def _check(op: Match, x: ir.Value, c: ir.Value, result: ir.Value) -> Any:
    tensor = constant_tensor(c)
    if tensor is None or is_constant(x):
        return no("the exponent is not the only constant", at=c)
    if not is_float(x):
        return no("powers of integers may be computed as floats", at=x)
    if tensor.size != 1 or not holds_only(c, 2.0):
        return no("the exponent is not the single number two", at=c)
    return yes if keeps_shape(x, result, c) else no("the exponent may widen the base", at=c)


def _rewrite(op: Any, x: ir.Value) -> Any:
    return op.Mul(x, x)
