"""Rules that are right for most numbers: one application in the host meets zeros, ties, NaN, or what overflows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import (
    RewriteRulePass,
    Transformation,
    constant,
    no,
    passes,
)
from tests.planted.planting import Fault, rows


@passes.verify.equality
class AbsorbsReluIntoLess(Transformation, RewriteRulePass):
    """Compare before Relu as after it; wrong where the limit is not positive."""

    def pattern(self, op, x, limit):
        return op.Less(op.Relu(x), limit)

    def rewrite(self, op, x, limit):
        return op.Less(x, limit)


@passes.verify.equality
class MergesClips(Transformation, RewriteRulePass):
    """Intersect the ranges of two Clips; wrong where they have nothing in common."""

    def pattern(self, op, x, low, high, lower, higher):
        return op.Clip(op.Clip(x, low, high), lower, higher)

    def check(self, op, x, low, high, lower, higher):
        return all(constant(value) is not None for value in (low, high, lower, higher)) or no("not constant")

    def rewrite(self, op, x, low, high, lower, higher):
        return op.Clip(x, np.maximum(constant(low), constant(lower)), np.minimum(constant(high), constant(higher)))


@passes.verify.equality
class AbsorbsReluIntoClip(Transformation, RewriteRulePass):
    """Raise the lower end of a Clip to zero; wrong where the upper end is below."""

    def pattern(self, op, x, low, high):
        return op.Relu(op.Clip(x, low, high))

    def check(self, op, x, low, high):
        return (low is not None and constant(low) is not None) or no("not constant", at=low)

    def rewrite(self, op, x, low, high):
        return op.Clip(x, np.maximum(constant(low), np.zeros_like(constant(low))), high)


@passes.verify.equality
class RoundsHalvesToEven(Transformation, RewriteRulePass):
    """Take floor(x + 0.5) for Round, which goes to the even neighbour."""

    def pattern(self, op, x):
        return op.Floor(op.Add(x, 0.5))

    def rewrite(self, op, x):
        return op.Round(x)


@passes.verify.equality
class RemovesZeros(Transformation, RewriteRulePass):
    """Take x + 0 for x; wrong for -0."""

    def pattern(self, op, x, zero):
        return op.Add(x, zero)

    def check(self, op, x, zero):
        number = constant(zero)
        return number is not None and number.ndim == 0 and number == 0

    def rewrite(self, op, x, zero):
        return op.Identity(x)


@passes.verify.equality
class NegatesByNeg(Transformation, RewriteRulePass):
    """Take 0 - x for -x; wrong for 0."""

    def pattern(self, op, x):
        return op.Sub(0.0, x)

    def rewrite(self, op, x):
        return op.Neg(x)


@passes.verify.equality
class BelievesInSelfEquality(Transformation, RewriteRulePass):
    """Take x == x for true; wrong for NaN."""

    def pattern(self, op, x):
        return op.Equal(x, x)

    def rewrite(self, op, x):
        return op.Expand(op.initializer(np.array(True)), op.Shape(x))


@passes.verify.equality
class SubtractsToNothing(Transformation, RewriteRulePass):
    """Take x - x for 0; wrong for infinities."""

    def pattern(self, op, x):
        return op.Sub(x, x)

    def check(self, op, x):
        return x.dtype in (None, ir.DataType.FLOAT) or no("not float", at=x)

    def rewrite(self, op, x):
        return op.Expand(np.float32(0), op.Shape(x))


@passes.verify.tolerance
class CancelsLogAndExp(Transformation, RewriteRulePass):
    """Take log(exp(x)) for x; wrong where exp overflows."""

    def pattern(self, op, x):
        return op.Log(op.Exp(x))

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.tolerance
class MultipliesFactorsFirst(Transformation, RewriteRulePass):
    """Multiply two constant factors in advance; wrong where they overflow though the product does not."""

    def pattern(self, op, x, a, b):
        return op.Mul(op.Mul(x, a), b)

    def check(self, op, x, a, b):
        return constant(a) is not None and constant(b) is not None

    def rewrite(self, op, x, a, b):
        with np.errstate(over="ignore"):
            return op.Mul(x, constant(a) * constant(b))


def compared(limits: list[float]) -> str:
    initializers = ", ".join(f"float l{i} = {{{limit}}}" for i, limit in enumerate(limits, 1))
    block = "a@ = Neg(x) b@ = Relu(a@) c@ = Less(b@, l@) y@ = Not(c@)"
    return rows("float[16] x", block, count=len(limits), result="bool[] y@", initializers=initializers)


def clipped(block: str, ends: list[tuple[float, ...]]) -> str:
    names = "abcd"
    initializers = ", ".join(
        f"float {name}{i} = {{{end}}}" for i, row in enumerate(ends, 1) for name, end in zip(names, row, strict=False)
    )
    return rows("float[16] x", block, count=len(ends), initializers=initializers)


FAULTS = [
    Fault(
        "Relu in front of a comparison",
        AbsorbsReluIntoLess,
        compared([1, 2, 0.5, 3, 1, 0, 2, 4, 1]),
        "values",
        culprit=6,
    ),
    Fault(
        "Clips with nothing in common",
        MergesClips,
        clipped(
            "v@ = Neg(x) w@ = Clip(v@, a@, b@) z@ = Clip(w@, c@, d@) y@ = Neg(z@)",
            [(-1, 1, 0, 2), (0, 6, 1, 3), (-2, 2, -1, 1), (0, 1, 0, 1), (0, 1, 2, 3), (-1, 1, -1, 0), (0, 6, 0, 4)],
        ),
        "values",
        culprit=5,
    ),
    Fault(
        "Clip below zero",
        AbsorbsReluIntoClip,
        clipped(
            "v@ = Neg(x) w@ = Clip(v@, a@, b@) z@ = Relu(w@) y@ = Neg(z@)", [(-1, 1), (0, 6), (-2, 2), (-5, -1), (1, 3)]
        ),
        "values",
        culprit=4,
    ),
    Fault(
        "ties",
        RoundsHalvesToEven,
        rows(
            "float[24] x",
            "b@ = Add(whole, half) c@ = Floor(b@) y@ = Add(c@, zero)",
            odd={7: "b@ = Add(x, half) c@ = Floor(b@) y@ = Add(c@, zero)"},
            before="ceiling = Ceil(x) whole = Add(ceiling, zero)",
            initializers="float half = {0.5}, float zero = {0.0}",
            count=12,
        ),
        "ties",
        culprit=7,
    ),
    Fault(
        "minus zero plus zero",
        RemovesZeros,
        rows(
            "float[24] x",
            "b@ = Add(plus, zero) y@ = Neg(b@)",
            odd={5: "b@ = Add(x, zero) y@ = Neg(b@)"},
            before="plus = Abs(x)",
            initializers="float zero = {0.0}",
        ),
        "signed zero",
        culprit=5,
    ),
    Fault(
        "zero minus zero",
        NegatesByNeg,
        rows(
            "float[24] x",
            "b@ = Sub(zero, more) y@ = Neg(b@)",
            odd={2: "b@ = Sub(zero, x) y@ = Neg(b@)"},
            before="plus = Abs(x) more = Add(plus, one)",
            initializers="float zero = {0.0}, float one = {1.0}",
        ),
        "signed zero",
        culprit=2,
    ),
    Fault(
        "NaN from within equals itself",
        BelievesInSelfEquality,
        rows(
            "float[24] x",
            "a@ = Neg(x) b@ = Equal(a@, a@) y@ = Not(b@)",
            odd={8: "a@ = Log(x) b@ = Equal(a@, a@) y@ = Not(b@)"},
            result="bool[] y@",
            count=10,
        ),
        "NaN",
        culprit=8,
    ),
    Fault(
        "infinity from within minus itself",
        SubtractsToNothing,
        rows(
            "float[24] x",
            "a@ = Neg(x) b@ = Sub(a@, a@) y@ = Add(b@, x)",
            odd={3: "a@ = Exp(x) b@ = Sub(a@, a@) y@ = Add(b@, x)"},
        ),
        "infinity",
        culprit=3,
    ),
    Fault(
        "logarithm of an overflow",
        CancelsLogAndExp,
        rows(
            "float[24] x",
            "b@ = Exp(near) c@ = Log(b@) y@ = Neg(c@)",
            odd={4: "b@ = Exp(x) c@ = Log(b@) y@ = Neg(c@)"},
            before="near = Clip(x, low, high)",
            initializers="float low = {-5.0}, float high = {5.0}",
        ),
        "large values",
        culprit=4,
    ),
    Fault(
        "factors that overflow",
        MultipliesFactorsFirst,
        rows(
            "float16[8] x",
            "b@ = Mul(x, small) c@ = Mul(b@, large) y@ = Neg(c@)",
            odd={6: "a@ = Mul(tiny, x) b@ = Mul(a@, large) c@ = Mul(b@, large) y@ = Neg(c@)"},
            before="tiny = Abs(a_little)",
            result="float16[] y@",
            initializers="float16 small = {14336}, float16 large = {24576}, float16 a_little = {1678}",
        ),
        "fp16 overflow",
        culprit=6,
    ),
]
