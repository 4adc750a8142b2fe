"""Put LayerNormalization in the place of the operators that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import number
from onnx_passes.passes.fuse.norms import build_norm, refuse_norm, scale_norm, shift_norm, trailing_axis
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_SAMPLES = tuple(
    f"""<ir_version: 9, opset_import: ["" : 18]> g (float[{shape}] x, float[3] v) => (
        float[?,?,3] a, float[?,?,3] b, float[?,?,3] c, float[?,?,3] e)
    <int64[{rank}] axes = {{{axes}}}, float eps = {{{epsilon}}}, float two = {{2}}, float one = {{1}},
     float[3] s = {{0.5,2,-1}}, float[3] h = {{3,2,-1}}> {{
        m = ReduceMean (x, axes) d = Sub (x, m) q = Pow (d, two) r = ReduceMean (q, axes) p = Add (r, eps)
        t = Sqrt (p) a = Div (d, t)
        m1 = ReduceMean (x, axes) d1 = Sub (x, m1) q1 = Mul (d1, d1) r1 = ReduceMean (q1, axes) p1 = Add (r1, eps)
        t1 = Sqrt (p1) i1 = {inverse} b = Mul (d1, i1)
        n2 = LayerNormalization (x, s, h) c = Mul (n2, {factor})
        n3 = LayerNormalization (x, s) e = Add ({added}, n3)
    }}"""
    for shape in ("1,2,3", "2,1,3", "N,2,3")
    for rank, axes, epsilon, inverse, factor, added in (
        (1, "-1", "0.00001", "Reciprocal (t1)", "s", "v"),
        (1, "2", "0.001", "Div (one, t1)", "two", "h"),
        (2, "1,-1", "0.1", "Reciprocal (t1)", "h", "one"),
    )
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseLayernorm(Transformation, RewriteRuleSetPass):
    """Fuse the definition of LayerNormalization into one node, with its scale and bias.

    Rewrites: ``d / Sqrt(ReduceMean(d²) + ε)`` with ``d = x - ReduceMean(x)`` → ``LayerNormalization(x, 1)``, however
              the square and the division are written; ``LayerNormalization(x, s) * c`` → scale, ``+ c`` → bias.
    Refuses:  opsets below 17; means that are not over the same last axes, or drop them; last axes of unknown size;
              other types than single and half precision; a scale or bias that does not fit the normalized axes;
              a value inside that is used elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_SAMPLES)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for the normalization itself, and those for what follows."""
        return [
            Rule(_pattern_quotient, _normalize, _check, name="Div"),
            Rule(_pattern_product, _normalize, _check, name="Mul"),
            Rule(_pattern_scale, _scale, name="Scale"),
            Rule(_pattern_shift, _shift, name="Bias"),
        ]


def _deviation(op: Any, x: Any, two: Any, epsilon: Any) -> tuple[Any, Any]:
    d = op.Sub(x, op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"]))
    square = OrValue([op.Pow(d, two), op.Mul(d, d)])
    variance = op.ReduceMean(square, _allow_other_inputs=True, _outputs=["variance"])
    return d, op.Sqrt(op.Add(variance, epsilon))


def _pattern_quotient(op: Any, x: Any, two: Any, epsilon: Any) -> Any:
    d, deviation = _deviation(op, x, two, epsilon)
    return op.Div(d, deviation)


def _pattern_product(op: Any, x: Any, two: Any, epsilon: Any, one: Any) -> Any:
    d, deviation = _deviation(op, x, two, epsilon)
    return op.Mul(d, OrValue([op.Reciprocal(deviation), op.Div(one, deviation)]))


def _pattern_scale(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Mul(op.LayerNormalization(x, w, _allow_other_inputs=True, _outputs=["y"]), c)


def _pattern_shift(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Add(op.LayerNormalization(x, w, _allow_other_inputs=True, _outputs=["y"]), c)


def _check(
    match: Match,
    x: ir.Value,
    two: ir.Value | None,
    epsilon: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    one: ir.Value | None = None,
) -> Any:
    if match.opset < 17:
        return no("LayerNormalization needs opset 17")
    if one is not None and number(one, x) != 1:
        return no("the reciprocal is not that of one", at=one)
    refusal = refuse_norm(x, (trailing_axis(mean, x), trailing_axis(variance, x)), epsilon, two)
    return yes if refusal is None else refusal


def _normalize(op: Any, x: ir.Value, mean: ir.Value, epsilon: ir.Value) -> Any:
    return build_norm(op, "LayerNormalization", x, mean, epsilon)


def _scale(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return scale_norm(op, y, c)


def _shift(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return shift_norm(op, y, c)
