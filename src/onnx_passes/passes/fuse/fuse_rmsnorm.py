"""Put RMSNormalization in the place of the operators that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter.pattern import OrValue

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.constants import number
from onnx_passes.passes.fuse.norms import build_norm, refuse_norm, scale_norm, trailing_axis
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_SAMPLES = tuple(
    f"""<ir_version: 11, opset_import: ["" : 23]> g (float[{shape}] x, float[3] v) => (
        float[?,?,3] a, float[?,?,3] b, float[?,?,3] c)
    <int64[{rank}] axes = {{{axes}}}, float eps = {{{epsilon}}}, float two = {{2}}, float one = {{1}},
     float[3] s = {{0.5,2,-1}}, float[3] h = {{1,1,1}}> {{
        q = Pow (x, two) r = ReduceMean (q, axes) p = Add (r, eps) t = Sqrt (p) a = Div (x, t)
        q1 = Mul (x, x) r1 = ReduceMean (q1, axes) p1 = Add (eps, r1) t1 = Sqrt (p1) i1 = {inverse} b = Mul (x, i1)
        n2 = RMSNormalization (x, h) c = Mul ({factor}, n2)
    }}"""
    for shape in ("1,2,3", "2,1,3", "N,2,3")
    for rank, axes, epsilon, inverse, factor in (
        (1, "-1", "0.00001", "Reciprocal (t1)", "s"),
        (1, "2", "0.001", "Div (one, t1)", "two"),
        (2, "1,-1", "0.1", "Reciprocal (t1)", "v"),
    )
)


@passes.verify.tolerance
@passes.register("fuse")
class FuseRmsnorm(Transformation, RewriteRuleSetPass):
    """Fuse the definition of RMSNormalization into one node, with its scale.

    Rewrites: ``x / Sqrt(ReduceMean(x²) + ε)`` → ``RMSNormalization(x, 1)``, however the square and the division are
              written; ``RMSNormalization(x, s) * c`` → scale.
    Refuses:  opsets below 23; a mean that is not over last axes of known size, or drops them; other types than single
              and half precision; a scale that does not fit the normalized axes; a value inside that is used elsewhere.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = hints(*_SAMPLES)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for the normalization itself, and that for what follows."""
        return [
            Rule(_pattern_quotient, _normalize, _check, name="Div"),
            Rule(_pattern_product, _normalize, _check, name="Mul"),
            Rule(_pattern_scale, _scale, name="Scale"),
        ]


def _root(op: Any, x: Any, two: Any, epsilon: Any) -> Any:
    square = OrValue([op.Pow(x, two), op.Mul(x, x)])
    return op.Sqrt(op.Add(op.ReduceMean(square, _allow_other_inputs=True, _outputs=["mean"]), epsilon))


def _pattern_quotient(op: Any, x: Any, two: Any, epsilon: Any) -> Any:
    return op.Div(x, _root(op, x, two, epsilon))


def _pattern_product(op: Any, x: Any, two: Any, epsilon: Any, one: Any) -> Any:
    root = _root(op, x, two, epsilon)
    return op.Mul(x, OrValue([op.Reciprocal(root), op.Div(one, root)]))


def _pattern_scale(op: Any, x: Any, w: Any, c: Any) -> Any:
    return op.Mul(op.RMSNormalization(x, w, _outputs=["y"]), c)


def _check(
    match: Match, x: ir.Value, two: ir.Value | None, epsilon: ir.Value, mean: ir.Value, one: ir.Value | None = None
) -> Any:
    if match.opset < 23:
        return no("RMSNormalization needs opset 23")
    if one is not None and number(one, x) != 1:
        return no("the reciprocal is not that of one", at=one)
    refusal = refuse_norm(x, (trailing_axis(mean, x),), epsilon, two)
    return yes if refusal is None else refusal


def _normalize(op: Any, x: ir.Value, mean: ir.Value, epsilon: ir.Value) -> Any:
    return build_norm(op, "RMSNormalization", x, mean, epsilon)


def _scale(op: Any, y: ir.Value, c: ir.Value) -> Any:
    return scale_norm(op, y, c)
