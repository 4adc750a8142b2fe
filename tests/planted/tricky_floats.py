"""Rules that are right for every number, on models that tempt a careless check."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import (
    RewriteRulePass,
    RewriteRuleSetPass,
    Rule,
    Transformation,
    constant,
    no,
    passes,
)
from tests.planted.planting import Tricky, rows, text


@passes.verify.equality
class SubtractsByAdding(Transformation, RewriteRulePass):
    """x - y → x + (-y)"""

    def pattern(self, op, x, y):
        return op.Sub(x, y)

    def check(self, op, x, y):
        return (x.dtype or y.dtype) is ir.DataType.FLOAT or no("not known to be float", at=x)

    def rewrite(self, op, x, y):
        return op.Add(x, op.Neg(y))


@passes.verify.equality
class CancelsNegations(Transformation, RewriteRulePass):
    """-(-x) → x"""

    functions = True

    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class TurnsSumsRound(Transformation, RewriteRulePass):
    """x + y → y + x"""

    commute = False

    def pattern(self, op, x, y):
        return op.Add(x, y)

    def check(self, op, x, y):
        return (x.name or "") > (y.name or "") or no("in order")

    def rewrite(self, op, x, y):
        return op.Add(y, x)


@passes.verify.equality
class CancelsCasts(Transformation, RewriteRulePass):
    """Remove a Cast to a wider type and the one back."""

    def pattern(self, op, x):
        return op.Cast(op.Cast(x, to=ir.DataType.DOUBLE), to=ir.DataType.FLOAT)

    def check(self, op, x):
        return x.dtype is ir.DataType.FLOAT or no("not from float", at=x)

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class ForgetsSignsTwice(Transformation, RewriteRulePass):
    """|-x| → |x|"""

    def pattern(self, op, x):
        return op.Abs(op.Neg(x))

    def rewrite(self, op, x):
        return op.Abs(x)


@passes.verify.equality
class TurnsComparisonsRound(Transformation, RewriteRuleSetPass):
    """x < y → y > x, and x <= y → y >= x, which hold for NaN too."""

    def rules(self):
        return [
            Rule(lambda op, x, y: op.Less(x, y), lambda op, x, y: op.Greater(y, x), name="TurnsLess"),
            Rule(
                lambda op, x, y: op.LessOrEqual(x, y),
                lambda op, x, y: op.GreaterOrEqual(y, x),
                name="TurnsLessOrEqual",
            ),
        ]


@passes.verify.equality
class DistributesNot(Transformation, RewriteRulePass):
    """not (a and b) → (not a) or (not b)"""

    def pattern(self, op, a, b):
        return op.Not(op.And(a, b))

    def rewrite(self, op, a, b):
        return op.Or(op.Not(a), op.Not(b))


@passes.verify.tolerance
class SwapsChoices(Transformation, RewriteRulePass):
    """Choose the other way round instead of negating the condition; ONNX Runtime loses signs of zeros in one way."""

    def pattern(self, op, condition, x, y):
        return op.Where(op.Not(condition), x, y)

    def rewrite(self, op, condition, x, y):
        return op.Where(condition, y, x)


@passes.verify.equality
class DividesByMultiplying(Transformation, RewriteRulePass):
    """Multiply by the reciprocal of a power of two, which is exact."""

    def pattern(self, op, x, divisor):
        return op.Div(x, divisor)

    def check(self, op, x, divisor):
        number = constant(divisor)
        if number is None or number.dtype != np.float32:
            return no("no constant of floats", at=divisor)
        mantissa, exponent = np.frexp(number)
        return bool((np.abs(mantissa) == 0.5).all() and (np.abs(exponent) < 100).all()) or no("no power of two")

    def rewrite(self, op, x, divisor):
        return op.Mul(x, np.reciprocal(constant(divisor)))


@passes.verify.equality
class MergesClips(Transformation, RewriteRulePass):
    """Intersect the ranges of two Clips that have something in common."""

    def pattern(self, op, x, low, high, lower, higher):
        return op.Clip(op.Clip(x, low, high), lower, higher)

    def check(self, op, x, low, high, lower, higher):
        ends = [constant(value) for value in (low, high, lower, higher)]
        if any(end is None or end.ndim or not np.isfinite(end) or end == 0 for end in ends):
            return no("no plain numbers")
        a, b, c, d = ends
        return bool(max(a, c) <= min(b, d) and a <= b and c <= d) or no("nothing in common")

    def rewrite(self, op, x, low, high, lower, higher):
        return op.Clip(x, np.maximum(constant(low), constant(lower)), np.minimum(constant(high), constant(higher)))


@passes.verify.tolerance
class AddsLater(Transformation, RewriteRulePass):
    """(x + y) + z → x + (y + z), which rounds differently."""

    commute = False

    def pattern(self, op, x, y, z):
        return op.Add(op.Add(x, y), z)

    def rewrite(self, op, x, y, z):
        return op.Add(x, op.Add(y, z))


PAIR = "a@ = Abs(x) b@ = Neg(a@) c@ = Neg(b@) y@ = Abs(c@)"


TRICKY = [
    Tricky(
        "difference as a sum",
        SubtractsByAdding,
        rows("float[24] x, float[24] z", "a@ = Sub(x, z) y@ = Neg(a@)"),
        "rule",
    ),
    Tricky("negation of zeros", CancelsNegations, rows("float[24] x", PAIR), "rule"),
    Tricky(
        "sums turned round", TurnsSumsRound, rows("float[24] x, float[24] b", "a@ = Add(x, b) y@ = Neg(a@)"), "rule"
    ),
    Tricky(
        "Cast to a wider type and back",
        CancelsCasts,
        rows("float[24] x", "b@ = Cast<to=11>(x) c@ = Cast<to=1>(b@) y@ = Neg(c@)"),
        "rule",
    ),
    Tricky(
        "sign lost anyway",
        ForgetsSignsTwice,
        rows("float[24] x", "a@ = Log(x) b@ = Neg(a@) c@ = Abs(b@) y@ = Neg(c@)"),
        "rule",
    ),
    Tricky(
        "comparison of NaN turned round",
        TurnsComparisonsRound,
        rows(
            "float[24] x",
            "a@ = Log(x) b@ = Less(a@, x) y@ = Not(b@)",
            odd={4: "a@ = Log(x) b@ = LessOrEqual(x, a@) y@ = Not(b@)"},
            result="bool[] y@",
        ),
        "rule",
    ),
    Tricky(
        "negated conjunction",
        DistributesNot,
        rows("bool[1,4] x, bool[3,1] z", "b@ = And(x, z) c@ = Not(b@) y@ = Not(c@)", result="bool[] y@"),
        "rule",
    ),
    Tricky(
        "choice the other way round",
        SwapsChoices,
        rows("bool[3] c, float[2,3] x, float[1,3] z", "a@ = Not(c) b@ = Where(a@, x, z) y@ = Neg(b@)"),
        "rule",
        levels=frozenset({"bits:sampled", "tolerance:sampled"}),
    ),
    Tricky(
        "division by powers of two",
        DividesByMultiplying,
        rows(
            "float[24] x",
            "a@ = Div(x, two) y@ = Neg(a@)",
            odd={2: "a@ = Div(x, less) y@ = Neg(a@)"},
            initializers="float two = {2.0}, float less = {-0.0009765625}",
        ),
        "rule",
    ),
    Tricky(
        "ranges in common",
        MergesClips,
        rows(
            "float[24] x",
            "a@ = Log(x) b@ = Clip(a@, one, four) c@ = Clip(b@, two, five) y@ = Neg(c@)",
            initializers="float one = {-1.0}, float two = {-0.5}, float four = {1.0}, float five = {2.0}",
        ),
        "rule",
    ),
    Tricky(
        "sums that round differently",
        AddsLater,
        rows("float[24] x, float[24] z", "a@ = Add(x, z) b@ = Add(a@, x) c@ = Add(b@, z) y@ = Neg(c@)"),
        "rule",
        levels=frozenset({"tolerance:sampled", "bits:sampled"}),
    ),
    Tricky(
        "in branches that capture",
        CancelsNegations,
        text(
            "float[4] x, bool which",
            "float[4] y",
            """
            a = Neg(x) b = Neg(a) c = Log(b)
            d = If (which) <
                then_branch = yes () => (float[4] t) { t0 = Neg(c) t1 = Neg(t0) t = Mul(t1, a) },
                else_branch = no () => (float[4] e) { e = Neg(a) }
            >
            y = Sub(d, x)
            """,
        ),
        "rule",
    ),
    Tricky(
        "in a loop",
        CancelsNegations,
        text(
            "float[4] x",
            "float[4] y, float[K,4] all",
            """
            times = Constant<value = int64 {3}>()
            y, all = Loop (times, , x) <
                body = step (int64 i, bool c, float[4] v) => (bool d, float[4] w, float[4] s) {
                    d = Identity(c) m = Neg(v) n = Neg(m) w = Add(n, x) s = Neg(w)
                }
            >
            """,
        ),
        "rule",
    ),
    Tricky(
        "in a function",
        CancelsNegations,
        text(
            "float[4] x",
            "float[4] y",
            "a = local.twice(x) b = Neg(a) y = local.twice(b)",
            domains='"local": 1',
            functions='<domain: "local", opset_import: ["": 20]> twice (v) => (r)'
            "{ s = Neg(v) t = Neg(s) r = Add(t, v) }",
        ),
        "rule",
    ),
]
