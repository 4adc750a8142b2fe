"""A rule that is wrong for negative numbers, in the graph, a branch, a loop and a function."""

from __future__ import annotations

from onnx_passes import (
    RewriteRulePass,
    Transformation,
    passes,
)
from tests.planted.planting import Fault, repeated, rows, text


@passes.verify.equality
class TakesRootsOfSquares(Transformation, RewriteRulePass):
    """Take sqrt(x * x) for x; wrong for negative values."""

    functions = True

    def pattern(self, op, x):
        return op.Sqrt(op.Mul(x, x))

    def rewrite(self, op, x):
        return op.Identity(x)


FAULTS = [
    Fault(
        "root of a square of a negative number",
        TakesRootsOfSquares,
        rows(
            "float[8] x",
            "b@ = Mul(plus, plus) c@ = Sqrt(b@) y@ = Neg(c@)",
            odd={6: "b@ = Mul(whole, whole) c@ = Sqrt(b@) y@ = Neg(c@)"},
            before="whole = Round(x) plus = Abs(whole)",
        ),
        "negative values",
        culprit=6,
    ),
    Fault(
        "wrong in a branch",
        TakesRootsOfSquares,
        text(
            "float[8] x",
            "float[8] y, float[8] z",
            """
            z = Neg(x) plus = Abs(x)
            flag0 = Constant<value_ints = [1]>() flag1 = Cast<to=9>(flag0) flag = Squeeze(flag1)
            y = If (flag) <
                then_branch = yes () => (float[8] t) { t0 = Round(plus) t1 = Mul(t0, t0) t2 = Sqrt(t1)
                    u = Round(x) u0 = Mul(u, u) u1 = Sqrt(u0) t = Add(t2, u1) },
                else_branch = no () => (float[8] e) { e0 = Round(plus) e1 = Mul(e0, e0) e2 = Sqrt(e1) e = Neg(e2) }
            >
            """,
        ),
        "subgraph",
        culprit=2,
    ),
    Fault(
        "wrong in a loop",
        TakesRootsOfSquares,
        text(
            "float[8] x",
            "float[8] y",
            """
            times = Constant<value = int64 {3}>()
            start0 = Round(x) plus = Abs(start0) p0 = Mul(plus, plus) start = Sqrt(p0)
            y0 = Loop (times, , start) <
                body = step (int64 i, bool c, float[8] v) => (bool d, float[8] w) {
                    d = Identity(c) m = Neg(v) s = Mul(m, m) r = Sqrt(s) w = Add(r, plus)
                }
            >
            y = Neg(y0)
            """,
        ),
        "subgraph",
        culprit=2,
    ),
    Fault(
        "wrong in a function",
        TakesRootsOfSquares,
        text(
            "float[8] x",
            "float[8] y, float[8] z",
            repeated("a@ = Round(x) size@ = Abs(a@) b@ = Min(size@, most) c@ = Mul(b@, b@) d@ = Sqrt(c@)", 3)
            + " e = local.norm(a1) f = Add(e, d1) g = Add(d2, d3) y = Neg(f) z = local.norm(g)",
            initializers="float most = {1000.0}",
            domains='"local": 1',
            functions='<domain: "local", opset_import: ["": 20]> norm (v) => (n)'
            "{ w = Mul(v, v) u = Sqrt(w) n = Neg(u) }",
        ),
        "function",
        culprit=4,
    ),
]
