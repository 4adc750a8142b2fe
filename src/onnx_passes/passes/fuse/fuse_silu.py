"""Put Swish in the place of products with a sigmoid."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import DOUBLE, FLOAT, HALF, number, opset
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_SAMPLES = tuple(
    f"""<ir_version: 11, opset_import: ["" : 24]> g ({dtype}[{shape}] x) => ({dtype}[{shape}] a, {dtype}[{shape}] b)
    <{dtype} c = {{{factor}}}> {{
        s = Sigmoid (x) a = Mul (s, x)
        m = Mul (c, x) t = Sigmoid (m) b = Mul (x, t)
    }}"""
    for dtype in ("float", "double")
    for shape in ("2,3", "N,4", "2,0", "5")
    for factor in (1.702, -0.5)
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseSilu(Transformation, RewriteRuleSetPass):
    """Put Swish in the place of a product of a value with its sigmoid.

    Rewrites: ``x * Sigmoid(x)`` → ``Swish(x)``; ``x * Sigmoid(c * x)`` → ``Swish<alpha=c>(x)``.
    Refuses:  opsets below 24; a factor that is not a constant number; types that are no floats; a sigmoid that is used
              elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"models": _SAMPLES})

    def rules(self) -> Sequence[Rule]:
        """Return the rules without and with a factor."""
        return [
            Rule(_pattern, _swish, _check, name="Silu"),
            Rule(_pattern_scaled, _swish, _check, name="Swish"),
        ]


def _pattern(op: Any, x: Any) -> Any:
    return op.Mul(x, op.Sigmoid(x))


def _pattern_scaled(op: Any, x: Any, c: Any) -> Any:
    return op.Mul(x, op.Sigmoid(op.Mul(x, c)))


def _check(match: Match, x: ir.Value, c: ir.Value | None = None) -> Any:
    if opset(match) < 24:
        return no("Swish needs opset 24")
    if x.dtype not in (FLOAT, DOUBLE, HALF):
        return no("the input is not of floats", at=x)
    factor = 1.0 if c is None else number(c, x)
    if factor is None or not np.isfinite(np.float32(factor)):
        return no("the factor is not a constant number", at=c)
    return yes


def _swish(op: Any, x: ir.Value, c: ir.Value | None = None) -> Any:
    return op.Swish(x, alpha=None if c is None else number(c, x))
