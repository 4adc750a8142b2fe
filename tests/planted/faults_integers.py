"""Rules that are right for most integers: one application in the host wraps, truncates, or counts from the end."""

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
from tests.planted.planting import Fault, rows, vector


@passes.verify.equality
class RemovesCastPairs(Transformation, RewriteRulePass):
    """Remove a Cast and the one back, whatever gets lost in between."""

    def pattern(self, op, x):
        return op.Cast(op.Cast(x), to=ir.DataType.FLOAT)

    def check(self, op, x):
        return x.dtype is ir.DataType.FLOAT or no("not from float", at=x)

    def rewrite(self, op, x):
        return op.Identity(x)


@passes.verify.equality
class CancelsProducts(Transformation, RewriteRulePass):
    """Take x * c / c for x; wrong where the product overflows."""

    def pattern(self, op, x, factor):
        return op.Div(op.Mul(x, factor), factor)

    def check(self, op, x, factor):
        return x.dtype is not None and x.dtype.is_integer() and constant(factor) is not None

    def rewrite(self, op, x, factor):
        return op.Identity(x)


@passes.verify.equality
class DividesSumsTermByTerm(Transformation, RewriteRulePass):
    """Take (x + c) / c for x / c + 1; wrong where a division that truncates meets negative numbers."""

    def pattern(self, op, x, term):
        return op.Div(op.Add(x, term), term)

    def check(self, op, x, term):
        return constant(term) is not None and term.dtype.is_integer()

    def rewrite(self, op, x, term):
        return op.Add(op.Div(x, term), np.ones_like(constant(term)))


@passes.verify.equality
class ComparesDifferences(Transformation, RewriteRulePass):
    """Take x - y > 0 for x > y; wrong where the difference wraps around."""

    def pattern(self, op, x, y, zero):
        return op.Greater(op.Sub(x, y), zero)

    def check(self, op, x, y, zero):
        number = constant(zero)
        return number is not None and not number.any() and number.dtype.kind in "iu"

    def rewrite(self, op, x, y, zero):
        return op.Greater(x, y)


@passes.verify.equality
class GathersBehindSlices(Transformation, RewriteRulePass):
    """Gather from what was sliced by shifting indices; wrong for those that count from the end."""

    def pattern(self, op, x, start, end, indices):
        return op.Gather(op.Slice(x, start, end), indices, axis=0)

    def check(self, op, x, start, end, indices):
        return vector(start) is not None and len(vector(start)) == 1 and vector(indices) is not None

    def rewrite(self, op, x, start, end, indices):
        return op.Gather(x, constant(indices) + constant(start)[0], axis=0)


@passes.verify.equality
class MergesSlices(Transformation, RewriteRulePass):
    """Slice a slice at once; wrong where the inner one ends first."""

    def pattern(self, op, x, start, end, later, last):
        return op.Slice(op.Slice(x, start, end), later, last)

    def check(self, op, x, start, end, later, last):
        ends = [vector(value) for value in (start, end, later, last)]
        return all(end is not None and len(end) == 1 and end[0] >= 0 for end in ends)

    def rewrite(self, op, x, start, end, later, last):
        return op.Slice(x, constant(start) + constant(later), constant(start) + constant(last))


FAULTS = [
    Fault(
        "Cast to a narrower type and back",
        RemovesCastPairs,
        rows(
            "float[8] x",
            "b@ = Cast<to=11>(x) c@ = Cast<to=1>(b@) y@ = Neg(c@)",
            odd={5: "b@ = Cast<to=10>(x) c@ = Cast<to=1>(b@) y@ = Neg(c@)"},
        ),
        "truncation",
        culprit=5,
    ),
    Fault(
        "Cast to integers and back",
        RemovesCastPairs,
        rows(
            "float[8] x",
            "b@ = Cast<to=11>(x) c@ = Cast<to=1>(b@) y@ = Neg(c@)",
            odd={3: "b@ = Cast<to=7>(x) c@ = Cast<to=1>(b@) y@ = Neg(c@)"},
        ),
        "truncation",
        culprit=3,
    ),
    Fault(
        "product that overflows",
        CancelsProducts,
        rows(
            "int16[8] x, int8[8] z",
            "b@ = Mul(x, one) c@ = Div(b@, one) d@ = Cast<to=6>(c@) y@ = Neg(d@)",
            odd={6: "b@ = Mul(z, two) c@ = Div(b@, two) d@ = Cast<to=6>(c@) y@ = Neg(d@)"},
            result="int32[] y@",
            initializers="int16 one = {1}, int8 two = {2}",
        ),
        "overflow",
        culprit=6,
    ),
    Fault(
        "product of wide integers that overflows",
        CancelsProducts,
        rows(
            "int32[8] x, int32[8] z",
            "b@ = Mul(x, one) c@ = Div(b@, one) y@ = Neg(c@)",
            odd={4: "b@ = Mul(z, many) c@ = Div(b@, many) y@ = Neg(c@)"},
            result="int32[] y@",
            initializers="int32 one = {1}, int32 many = {70000}",
        ),
        "overflow",
        culprit=4,
    ),
    Fault(
        "division that truncates",
        DividesSumsTermByTerm,
        rows(
            "int8[16] x",
            "b@ = Add(plus, c) d@ = Div(b@, c) y@ = Neg(d@)",
            odd={7: "b@ = Add(wide, c) d@ = Div(b@, c) y@ = Neg(d@)"},
            before="wide = Cast<to=6>(x) plus = Abs(wide)",
            result="int32[] y@",
            initializers="int32 c = {7}",
        ),
        "integer division",
        culprit=7,
    ),
    Fault(
        "unsigned difference",
        ComparesDifferences,
        rows(
            "uint8[16] x, uint8[16] z",
            "b@ = Sub(wide, wider) c@ = Greater(b@, nought) y@ = Not(c@)",
            odd={3: "b@ = Sub(x, z) c@ = Greater(b@, none) y@ = Not(c@)"},
            before="wide = Cast<to=6>(x) wider = Cast<to=6>(z)",
            result="bool[] y@",
            initializers="int32 nought = {0}, uint8 none = {0}",
        ),
        "unsigned",
        culprit=3,
    ),
    Fault(
        "index from the end",
        GathersBehindSlices,
        rows(
            "float[8,2] x",
            "a@ = Neg(x) b@ = Slice(a@, two, end) c@ = Gather<axis=0>(b@, near) y@ = Abs(c@)",
            odd={5: "a@ = Neg(x) b@ = Slice(a@, two, end) c@ = Gather<axis=0>(b@, far) y@ = Abs(c@)"},
            initializers="int64[1] two = {2}, int64[1] end = {6}, int64[2] near = {0, 3}, int64[2] far = {0, -1}",
        ),
        "indices",
        culprit=5,
    ),
    Fault(
        "slice that ends early",
        MergesSlices,
        rows(
            "float[12] x",
            "a@ = Neg(x) b@ = Slice(a@, two, end) c@ = Slice(b@, two, four) y@ = Abs(c@)",
            odd={8: "a@ = Neg(x) b@ = Slice(a@, two, end) c@ = Slice(b@, two, end) y@ = Abs(c@)"},
            count=12,
            initializers="int64[1] two = {2}, int64[1] four = {4}, int64[1] end = {9}",
        ),
        "off by one",
        culprit=8,
    ),
]
