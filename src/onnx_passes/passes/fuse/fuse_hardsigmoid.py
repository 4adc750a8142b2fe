"""Put HardSigmoid in the place of clipped lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.passes.fuse.conditions import FLOAT, HALF, is_number, number
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

NUMBERS = MappingProxyType(
    {"offset": (3.0,), "low": (0.0,), "high": (6.0,), "divisor": (6.0,), "factor": (1 / 6,)},
)

SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : {version}]> g (float[{shape}] x) => (
        float[{shape}] a, float[{shape}] b, float[{shape}] c, float[{shape}] d)
    <float three = {{3}}, float zero = {{0}}, float six = {{6}}, float sixth = {{0.16666667}}> {{
        s = Add (x, three) t = Clip (s, zero, six) m = Mul (x, t) a = Div (m, six)
        s1 = Add (three, x) t1 = Clip (s1, zero, six) m1 = Mul (t1, x) b = Mul (m1, sixth)
        s2 = Add (x, three) t2 = Clip (s2, zero, six) m2 = {last} c = Mul (x, m2)
        s3 = Add (x, three) t3 = Clip (s3, zero, six) d = {alone}
    }}"""
    for version in (18, 20, 21)
    for shape in ("2,3", "4")
    for last, alone in (
        ("Div (t2, six)", "Mul (sixth, t3)"),
        ("HardSigmoid <alpha = 0.16666667, beta = 0.5> (x)", "Div (t3, six)"),
    )
)


def clipped(op: Any, x: Any, offset: Any, low: Any, high: Any) -> Any:
    """Match a line that is clipped on both sides."""
    return op.Clip(op.Add(x, offset), low, high)


@passes.verify.tolerance
@passes.register("fuse")
class FuseHardsigmoid(Transformation, RewriteRuleSetPass):
    """Put HardSigmoid in the place of a clipped line.

    Rewrites: ``Clip(x + b, 0, t) / t`` → ``HardSigmoid<alpha=1/t, beta=b/t>(x)``, also with ``* (1/t)``.
    Refuses:  numbers that are not constant; ``t <= 0``; other types than single and half precision; a value inside
              that is used elsewhere.
    Exactness: rounding; NaN may become a number.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"constants": NUMBERS, "models": SAMPLES})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each way to divide."""
        return [
            Rule(_pattern_quotient, _hard_sigmoid, check_line, name="Div"),
            Rule(_pattern_product, _hard_sigmoid, check_line, name="Mul"),
        ]


def _pattern_quotient(op: Any, x: Any, offset: Any, low: Any, high: Any, divisor: Any) -> Any:
    return op.Div(clipped(op, x, offset, low, high), divisor)


def _pattern_product(op: Any, x: Any, offset: Any, low: Any, high: Any, factor: Any) -> Any:
    return op.Mul(clipped(op, x, offset, low, high), factor)


def _refuse_line(x: ir.Value, bound: dict[str, Any]) -> Refusal | None:
    if x.dtype not in (FLOAT, HALF):
        return no("the input is not of single or half precision", at=x)
    for name in ("offset", "low", "high", "divisor", "factor"):
        value = bound.get(name)
        if value is not None and number(value, x) is None:
            return no("a constant number was expected", at=value)
    high, divisor, factor = (number(bound.get(name), x) for name in ("high", "divisor", "factor"))
    if bound.get("high") is None or high is None:
        return None
    if not 0 < high < math.inf or number(bound.get("low"), x) != 0:
        return no("the line is not clipped between zero and a number above", at=bound.get("high"))
    if not (is_number(bound.get("divisor"), high, x) if factor is None else is_number(bound["factor"], 1 / high, x)):
        return no("the clipped line does not end at one", at=bound.get("factor" if divisor is None else "divisor"))
    return None


def check_line(match: Match, x: ir.Value, **bound: Any) -> Any:
    """Look at the numbers of a clipped line and of what it is divided by."""
    offset = number(bound["offset"], x)
    if offset is None or not math.isfinite(offset):
        return no("the offset of the line is not a constant number", at=x)
    refusal = _refuse_line(x, bound)
    return yes if refusal is None else refusal


def _hard_sigmoid(op: Any, x: ir.Value, offset: ir.Value, high: ir.Value) -> Any:
    top, shift = number(high, x), number(offset, x)
    assert top is not None
    assert shift is not None
    return op.HardSigmoid(x, alpha=1 / top, beta=shift / top)
