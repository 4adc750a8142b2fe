"""Put HardSwish in the place of products with a hard sigmoid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import FLOAT, HALF, is_number, opset
from onnx_passes.passes.fuse.fuse_hardsigmoid import NUMBERS, SAMPLES, check_line, clipped
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardswish(Transformation, RewriteRuleSetPass):
    """Put HardSwish in the place of a product with a hard sigmoid.

    Rewrites: ``x * HardSigmoid<alpha=1/6, beta=0.5>(x)`` → ``HardSwish(x)``; ``x * Clip(x + 3, 0, 6) / 6`` likewise,
              in any order, and with ``* (1/6)``.
    Refuses:  opsets below 14; other numbers; other types than single and half precision; a value inside that is used
              elsewhere.
    Exactness: rounding; NaN may become a number, and a product that overflows before the division a finite one.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"constants": NUMBERS, "models": SAMPLES})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each way to group the product."""
        return [
            Rule(_pattern_divided, _hard_swish, _check_swish, name="DivLast"),
            Rule(_pattern_scaled, _hard_swish, _check_swish, name="MulLast"),
            Rule(_pattern_gated, _hard_swish, _check_swish, name="InputLast"),
        ]


def _pattern_divided(op: Any, x: Any, offset: Any, low: Any, high: Any, divisor: Any) -> Any:
    return op.Div(op.Mul(x, clipped(op, x, offset, low, high)), divisor)


def _pattern_scaled(op: Any, x: Any, offset: Any, low: Any, high: Any, factor: Any) -> Any:
    return op.Mul(op.Mul(x, clipped(op, x, offset, low, high)), factor)


def _pattern_gated(op: Any, x: Any, offset: Any, low: Any, high: Any, divisor: Any, factor: Any) -> Any:
    line = clipped(op, x, offset, low, high)
    gates = [op.Div(line, divisor), op.Mul(line, factor), op.HardSigmoid(x)]
    return op.Mul(x, OrValue(gates, name="gate"))


def _check_swish(match: Match, x: ir.Value, **bound: Any) -> Any:
    if opset(match) < 14:
        return no("HardSwish needs opset 14")
    gate = bound.get("gate")
    node = None if gate is None else gate.producer()
    if node is not None and node.op_type == "HardSigmoid":
        alpha, beta = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
        if x.dtype not in (FLOAT, HALF) or not math.isclose(alpha, 1 / 6, rel_tol=1e-5) or beta != 0.5:
            return no("the hard sigmoid is not that of HardSwish", at=node)
        return yes
    if not (is_number(bound["offset"], 3.0, x) and is_number(bound["high"], 6.0, x)):
        return no("the line is not x + 3, clipped at 6", at=x)
    return check_line(match, x, **bound)


def _hard_swish(op: Any, x: ir.Value) -> Any:
    return op.HardSwish(x)
