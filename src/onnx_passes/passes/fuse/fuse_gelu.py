"""Put Gelu in the place of the operators that it is made of."""

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
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_NUMBERS = {
    "half": 0.5,
    "one": 1.0,
    "root": math.sqrt(2),
    "inverse": math.sqrt(0.5),
    "three": 3.0,
    "cubic": 0.044715,
    "factor": math.sqrt(2 / math.pi),
}

_SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : {version}]> g (float[{shape}] x) => (
        float[{shape}] a, float[{shape}] b, float[{shape}] c)
    <{", ".join(f"float {name} = {{{value}}}" for name, value in _NUMBERS.items())}> {{
        s = {scaled} e = Erf (s) g = Add (e, one) m = Mul (x, g) a = Mul (m, half)
        h = Mul (half, x) {cube} q = Mul (cubic, p) r = Add (x, q) t = Mul (factor, r) u = Tanh (t)
        v = Add (one, u) b = Mul (h, v)
        s1 = Mul (x, inverse) e1 = Erf (s1) g1 = Add (one, e1) m1 = Mul (half, g1) c = Mul (m1, x)
    }}"""
    for version in (20, 21)
    for shape in ("2,3", "4", "N,5")
    for scaled, cube in (("Div (x, root)", "p = Pow (x, three)"), ("Mul (inverse, x)", "w = Mul (x, x) p = Mul (x, w)"))
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseGelu(Transformation, RewriteRuleSetPass):
    """Put Gelu in the place of its definition, exact or approximated.

    Rewrites: ``0.5 * x * (1 + Erf(x / √2))`` → ``Gelu(x)``;
              ``0.5 * x * (1 + Tanh(√(2/π) * (x + 0.044715 * x³)))`` → ``Gelu<approximate="tanh">(x)``; the factors of
              the product may come in any order.
    Refuses:  opsets below 20; other numbers; other types than single and half precision; a value inside that is used
              elsewhere.
    Exactness: rounding; a product that overflows before it is halved may be finite.
    """

    needs = ("shape-inference",)
    fast_math = ("ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType(
        {
            "constants": MappingProxyType({name: (value,) for name, value in _NUMBERS.items()}),
            "models": _SAMPLES,
        }
    )

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each way to group the product."""
        return [
            Rule(_pattern_half_last, _gelu, _check, name="HalfLast"),
            Rule(_pattern_input_last, _gelu, _check, name="InputLast"),
            Rule(_pattern_gate_last, _gelu, _check, name="GateLast"),
        ]


def _gate(op: Any, x: Any, one: Any, root: Any, inverse: Any, three: Any, cubic: Any, factor: Any) -> Any:
    exact = op.Erf(OrValue([op.Div(x, root), op.Mul(x, inverse)]))
    cube = OrValue([op.Pow(x, three), op.Mul(x, op.Mul(x, x))])
    approximate = op.Tanh(op.Mul(op.Add(x, op.Mul(cube, cubic)), factor))
    return op.Add(OrValue([exact, approximate], name="bent"), one)


def _pattern_half_last(
    op: Any, x: Any, half: Any, one: Any, root: Any, inverse: Any, three: Any, cubic: Any, factor: Any
) -> Any:
    return op.Mul(op.Mul(x, _gate(op, x, one, root, inverse, three, cubic, factor)), half)


def _pattern_input_last(
    op: Any, x: Any, half: Any, one: Any, root: Any, inverse: Any, three: Any, cubic: Any, factor: Any
) -> Any:
    return op.Mul(x, op.Mul(_gate(op, x, one, root, inverse, three, cubic, factor), half))


def _pattern_gate_last(
    op: Any, x: Any, half: Any, one: Any, root: Any, inverse: Any, three: Any, cubic: Any, factor: Any
) -> Any:
    return op.Mul(op.Mul(x, half), _gate(op, x, one, root, inverse, three, cubic, factor))


def _check(match: Match, x: ir.Value, **bound: Any) -> Any:
    if opset(match) < 20:
        return no("Gelu needs opset 20")
    if x.dtype not in (FLOAT, HALF):
        return no("the input is not of single or half precision", at=x)
    for name, expected in _NUMBERS.items():
        value = bound.get(name)
        if value is not None and not is_number(value, expected, x):
            return no(f"the constant is not {expected:.6g}", at=value)
    return yes


def _gelu(op: Any, x: ir.Value, bent: ir.Value) -> Any:
    node = bent.producer()
    assert node is not None
    return op.Gelu(x, approximate="tanh" if node.op_type == "Tanh" else None)
