"""Rewrites, right and wrong, as pairs of models: what is expected of a proof engine for each, and why.

``proved`` pairs are the same bit by bit; ``reals`` pairs are the same real function, and floats differ by rounding;
``wrong`` pairs differ by more than rounding for some input, if only for NaN, an infinity or the sign of a zero, and
must not be accepted. ``flags`` are those of fast math under which a wrong pair would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnx_passes.proofs.samples import Domain

Expected = Literal["proved", "reals", "wrong"]

_F3 = "float[2,3] x, float[2,3] y, float[2,3] z => float[N,M] r"
_F2 = "float[2,3] x, float[2,3] y => float[N,M] r"
_F1 = "float[2,3] x => float[N,M] r"
_D1 = "float[2,3] x => bool[N,M] r"
_D3 = "float[2,3] x, float[2,3] y, float[2,3] z => bool[N,M] r"
_I3 = "int32[4] x, int32[4] y, int32[4] z => int32[N] r"
_C3 = "int32[4] x, int32[4] y, int32[4] z => bool[N] r"
_B3 = "bool[4] x, bool[4] y, bool[4] z => bool[N] r"


@dataclass(frozen=True)
class Pair:
    """Two bodies with one interface."""

    name: str
    interface: str
    before: str
    after: str
    expected: Expected
    why: str
    flags: tuple[str, ...] = ()
    domains: Mapping[str, Domain] = field(default_factory=dict[str, Domain])
    opset: int = 21


def _f(name: str, number: float) -> str:
    return f"{name} = Constant <value = float {{{number!r}}}> () "


def _i(name: str, number: int, kind: str = "int32") -> str:
    return f"{name} = Constant <value = {kind} {{{number}}}> () "


def _axes(*axes: int) -> str:
    return f"i = Constant <value_ints = [{', '.join(map(str, axes))}]> () "


CANCEL = "t = Add(x, c) r = Sub(t, c)"
_WHOLE = {"x": Domain(-128, 127, 1.0)}

PUBLISHED = (
    Pair("cancel 1e30", _F1, _f("c", 1e30) + CANCEL, "r = Identity(x)", "wrong", "nothing is left of x"),
    Pair("cancel 1e8", _F1, _f("c", 1e8) + CANCEL, "r = Identity(x)", "wrong", "x is rounded to multiples of 8"),
    Pair(
        "times zero",
        _F1,
        _f("c", 0.0) + "r = Mul(x, c)",
        _f("c", 0.0) + "s = Shape(x) r = Expand(c, s)",
        "wrong",
        "infinity times zero is NaN, and signs of zeros are kept",
        ("ninf", "nnan", "nsz"),
    ),
    Pair(
        "scaled comparison",
        _D1,
        _f("c", 0.1) + _f("d", 0.3) + "t = Mul(x, c) r = GreaterOrEqual(t, d)",
        _f("d", 3.0) + "r = GreaterOrEqual(x, d)",
        "proved",
        "the first float whose product reaches 0.3 is 3.0",
    ),
    Pair(
        "scaled comparison, one step above",
        _D1,
        _f("c", 0.1) + _f("d", 0.3) + "t = Mul(x, c) r = GreaterOrEqual(t, d)",
        _f("d", 3.000000238418579) + "r = GreaterOrEqual(x, d)",
        "wrong",
        "3.0 itself is decided otherwise",
    ),
    Pair(
        "scaled comparison with a rounded quotient",
        _D1,
        _f("c", 2.38) + _f("d", 0.79) + "t = Mul(x, c) r = GreaterOrEqual(t, d)",
        _f("c", 2.38) + _f("d", 0.79) + "t = Div(d, c) r = GreaterOrEqual(x, t)",
        "wrong",
        "the quotient is rounded to the other side",
    ),
    Pair(
        "overflow of a sum",
        _C3,
        "a = Add(x, z) b = Add(y, z) r = Greater(a, b)",
        "r = Greater(x, y)",
        "wrong",
        "integers wrap around",
    ),
    Pair(
        "no overflow of a sum",
        _C3,
        "a = Add(x, z) b = Add(y, z) r = Greater(a, b)",
        "r = Greater(x, y)",
        "proved",
        "small integers do not wrap around",
        domains={name: Domain(-(2**29), 2**29) for name in "xyz"},
    ),
    Pair(
        "range of float16",
        "float16[2] x => float16[N] r",
        _f("f", 300.0) + "c = Cast <to = 10> (f) a = Mul(x, c) r = Div(a, c)",
        "r = Identity(x)",
        "wrong",
        "the product overflows, and is rounded",
    ),
    Pair("not less", _D3, "a = Less(x, y) r = Not(a)", "r = GreaterOrEqual(x, y)", "wrong", "NaN", ("nnan",)),
    Pair(
        "not less, integers",
        _C3,
        "a = Less(x, y) r = Not(a)",
        "r = GreaterOrEqual(x, y)",
        "proved",
        "no NaN among them",
    ),
    Pair("equal to itself", _D1, "r = Equal(x, x)", "n = IsNaN(x) r = Not(n)", "proved", "NaN alone is not"),
    Pair(
        "absorption of extremes",
        _F2,
        "a = Max(x, y) r = Min(x, a)",
        "r = Identity(x)",
        "wrong",
        "y may be NaN",
        ("nnan",),
    ),
    Pair("absorption of truth", _B3, "a = Or(x, y) r = And(x, a)", "r = Identity(x)", "proved", "a lattice"),
    Pair("De Morgan", _B3, "a = And(x, y) r = Not(a)", "a = Not(x) b = Not(y) r = Or(a, b)", "proved", "duality"),
    Pair(
        "divide by four",
        _F1,
        _f("c", 4.0) + "r = Div(x, c)",
        _f("c", 0.25) + "r = Mul(x, c)",
        "proved",
        "powers of two",
    ),
    Pair(
        "divide by three",
        _F1,
        _f("c", 3.0) + "r = Div(x, c)",
        _f("c", 3.0) + "d = Reciprocal(c) r = Mul(x, d)",
        "reals",
        "a third is rounded",
    ),
    Pair(
        "threshold behind Relu",
        _D1,
        _f("a", 0.5) + "t = Relu(x) r = GreaterOrEqual(t, a)",
        _f("a", 0.5) + "r = GreaterOrEqual(x, a)",
        "proved",
        "the threshold is positive",
    ),
    Pair(
        "threshold at zero behind Relu",
        _D1,
        _f("a", 0.0) + "t = Relu(x) r = Less(t, a)",
        _f("a", 0.0) + "r = Less(x, a)",
        "wrong",
        "nothing is less than zero behind Relu",
    ),
    Pair(
        "distributivity",
        _F3,
        "a = Add(y, z) r = Mul(x, a)",
        "a = Mul(x, y) b = Mul(x, z) r = Add(a, b)",
        "wrong",
        "infinities of both signs meet on one side only; ordinary numbers differ by rounding",
        ("ninf", "nsz", "reassoc"),
    ),
    Pair("subtract or add", _F2, "r = Sub(x, y)", "n = Neg(y) r = Add(x, n)", "proved", "the same by definition"),
)

OWN = (
    # Integers.
    Pair(
        "ring", _I3, "a = Add(x, y) r = Mul(a, z)", "a = Mul(z, y) b = Mul(x, z) r = Add(b, a)", "proved", "modulo 2³²"
    ),
    Pair(
        "square",
        _I3,
        "a = Add(x, y) r = Mul(a, a)",
        f"a = Mul(x, x) b = Mul(x, y) {_i('c', 2)} d = Mul(b, c) e = Mul(y, y) f = Add(a, d) r = Add(f, e)",
        "proved",
        "modulo 2³²",
    ),
    Pair(
        "square of a difference",
        _I3,
        "a = Sub(x, y) r = Mul(a, a)",
        f"a = Mul(x, x) b = Mul(x, y) {_i('c', 2)} d = Mul(b, c) e = Mul(y, y) f = Add(a, d) r = Add(f, e)",
        "wrong",
        "the sign of the middle",
    ),
    Pair(
        "divide a product",
        _I3,
        _i("c", 3) + "a = Mul(x, c) r = Div(a, c)",
        "r = Identity(x)",
        "wrong",
        "the product overflows",
    ),
    Pair(
        "multiply a quotient",
        _I3,
        _i("c", 4) + "a = Div(x, c) r = Mul(a, c)",
        "r = Identity(x)",
        "wrong",
        "division truncates",
    ),
    Pair(
        "divide by two",
        _I3,
        _i("c", 2) + "a = Div(x, c) r = Div(a, c)",
        _i("c", 4) + "r = Div(x, c)",
        "proved",
        "truncation composes",
    ),
    Pair(
        "halve by a shift",
        "uint32[4] x => uint32[N] r",
        _i("c", 2, "uint32") + "r = Div(x, c)",
        _i("c", 1, "uint32") + 'r = BitShift <direction = "RIGHT"> (x, c)',
        "proved",
        "unsigned",
    ),
    Pair(
        "maximum by a choice", _I3, "r = Max(x, y)", "c = Greater(x, y) r = Where(c, x, y)", "proved", "a total order"
    ),
    Pair("distance", _I3, "a = Sub(x, y) r = Abs(a)", "a = Sub(y, x) r = Abs(a)", "proved", "even the least integer"),
    Pair(
        "not negative",
        _C3,
        _i("c", 0) + "a = Abs(x) r = GreaterOrEqual(a, c)",
        _i("c", 0) + "a = Abs(y) r = GreaterOrEqual(a, c)",
        "wrong",
        "the least integer has no absolute value",
    ),
    Pair(
        "narrow and widen",
        "int32[4] x => int32[N] r",
        "a = Cast <to = 3> (x) r = Cast <to = 6> (a)",
        "r = Identity(x)",
        "wrong",
        "8 bits",
    ),
    Pair(
        "widen and narrow",
        "int8[4] x => int8[N] r",
        "a = Cast <to = 6> (x) r = Cast <to = 3> (a)",
        "r = Identity(x)",
        "proved",
        "32 bits hold 8",
    ),
    Pair(
        "narrow in a range",
        "int32[4] x => int32[N] r",
        "a = Cast <to = 3> (x) r = Cast <to = 6> (a)",
        "r = Identity(x)",
        "proved",
        "the range has 8 bits",
        domains={"x": Domain(-128, 127)},
    ),
    Pair(
        "sum of wide squares",
        "int8[4] x => int32[N] r",
        "a = Cast <to = 6> (x) r = Mul(a, a)",
        "a = Mul(x, x) r = Cast <to = 6> (a)",
        "wrong",
        "8 bits overflow",
    ),
    # Bits and truth values.
    Pair(
        "exclusive or twice",
        _I3,
        "a = BitwiseXor(x, y) r = BitwiseXor(a, y)",
        "r = Identity(x)",
        "proved",
        "an involution",
    ),
    Pair(
        "add without carry",
        _I3,
        "a = BitwiseXor(x, y) b = BitwiseAnd(x, y) c = Add(b, b) r = Add(a, c)",
        "r = Add(x, y)",
        "proved",
        "carries",
    ),
    Pair("or as a sum", _I3, "r = BitwiseOr(x, y)", "r = Add(x, y)", "wrong", "common bits"),
    Pair(
        "bitwise De Morgan",
        _I3,
        "a = BitwiseOr(x, y) r = BitwiseNot(a)",
        "a = BitwiseNot(x) b = BitwiseNot(y) r = BitwiseAnd(a, b)",
        "proved",
        "duality",
    ),
    Pair(
        "majority",
        _B3,
        "a = And(x, y) b = And(x, z) c = And(y, z) d = Or(a, b) r = Or(d, c)",
        "a = Xor(x, y) r = Where(a, z, x)",
        "proved",
        "a truth table",
    ),
    Pair("exclusive or is inequality", _B3, "r = Xor(x, y)", "a = Equal(x, y) r = Not(a)", "proved", "a truth table"),
    Pair(
        "implication is not symmetric",
        _B3,
        "a = Not(x) r = Or(a, y)",
        "a = Not(y) r = Or(a, x)",
        "wrong",
        "a truth table",
    ),
    # Floats.
    Pair("negated difference", _F2, "a = Sub(x, y) r = Neg(a)", "r = Sub(y, x)", "wrong", "the sign of zero", ("nsz",)),
    Pair("add zero", _F1, _f("c", 0.0) + "r = Add(x, c)", "r = Identity(x)", "wrong", "−0 + 0 is +0", ("nsz",)),
    Pair("add minus zero", _F1, _f("c", -0.0) + "r = Add(x, c)", "r = Identity(x)", "proved", "−0 is neutral"),
    Pair("regrouped sum", _F3, "a = Add(x, y) r = Add(a, z)", "a = Add(y, z) r = Add(x, a)", "reals", "rounding"),
    Pair(
        "merged scales",
        _F1,
        _f("c", 0.3) + _f("d", 0.7) + "a = Mul(x, c) r = Mul(a, d)",
        _f("c", 0.21) + "r = Mul(x, c)",
        "reals",
        "the product of the scales is rounded",
    ),
    Pair(
        "wrongly merged scales",
        _F1,
        _f("c", 0.3) + _f("d", 0.7) + "a = Mul(x, c) r = Mul(a, d)",
        _f("c", 0.2102) + "r = Mul(x, c)",
        "wrong",
        "0.1 % off",
    ),
    Pair(
        "merged powers of two",
        _F1,
        _f("c", 4.0) + _f("d", 0.5) + "a = Mul(x, c) r = Mul(a, d)",
        _f("c", 2.0) + "r = Mul(x, c)",
        "reals",
        "the larger product overflows",
    ),
    Pair(
        "divide by itself",
        _F1,
        "r = Div(x, x)",
        _f("c", 1.0) + "s = Shape(x) r = Expand(c, s)",
        "wrong",
        "zero, infinity and NaN",
        ("ninf", "nnan"),
    ),
    Pair(
        "square root squared",
        _F1,
        "a = Sqrt(x) r = Mul(a, a)",
        "r = Identity(x)",
        "wrong",
        "of negative numbers there is none",
        ("ninf", "nnan", "nsz", "reassoc"),
    ),
    Pair("even function", _F1, "a = Neg(x) r = Abs(a)", "r = Abs(x)", "proved", "only the sign differs"),
    Pair("rounded twice", _F1, "a = Floor(x) r = Round(a)", "r = Floor(x)", "proved", "whole numbers stay"),
    Pair("ceiling by floor", _F1, "a = Neg(x) b = Floor(a) r = Neg(b)", "r = Ceil(x)", "proved", "mirrored"),
    Pair(
        "clip twice",
        _F1,
        _f("a", -1.0) + _f("b", 1.0) + _f("c", 0.5) + "t = Clip(x, a, b) r = Clip(t, a, c)",
        _f("a", -1.0) + _f("c", 0.5) + "r = Clip(x, a, c)",
        "proved",
        "the smaller range",
    ),
    Pair(
        "clips that do not meet",
        _F1,
        _f("a", 0.0) + _f("b", 1.0) + _f("c", 2.0) + _f("d", 3.0) + "t = Clip(x, a, b) r = Clip(t, c, d)",
        _f("c", 2.0) + _f("b", 1.0) + "r = Clip(x, c, b)",
        "wrong",
        "2, not 1",
    ),
    Pair(
        "Relu by Clip",
        _F1,
        "r = Relu(x)",
        _f("a", 0.0) + "r = Clip(x, a)",
        "wrong",
        "infinity is clipped to the largest number",
        ("ninf",),
    ),
    Pair(
        "through double",
        _F1,
        "a = Cast <to = 11> (x) r = Cast <to = 1> (a)",
        "r = Identity(x)",
        "proved",
        "exact both ways",
    ),
    Pair("through half", _F1, "a = Cast <to = 10> (x) r = Cast <to = 1> (a)", "r = Identity(x)", "wrong", "11 bits"),
    Pair(
        "through integers",
        _F1,
        "a = Cast <to = 7> (x) r = Cast <to = 1> (a)",
        "r = Identity(x)",
        "wrong",
        "fractions are cut",
    ),
    Pair("comparison turned", _D3, "r = Less(x, y)", "r = Greater(y, x)", "proved", "the converse"),
    Pair(
        "negated comparison",
        _D3,
        "a = Neg(x) b = Neg(y) r = Less(a, b)",
        "r = Greater(x, y)",
        "proved",
        "order is mirrored",
    ),
    Pair(
        "moved summand",
        _D3,
        "a = Add(x, y) r = GreaterOrEqual(a, z)",
        "a = Sub(z, y) r = GreaterOrEqual(x, a)",
        "wrong",
        "rounding decides",
    ),
    Pair(
        "exponential of a sum",
        _F2,
        "a = Exp(x) b = Exp(y) r = Mul(a, b)",
        "a = Add(x, y) r = Exp(a)",
        "wrong",
        "zero times infinity",
        ("ninf", "nnan", "reassoc"),
    ),
    Pair(
        "sigmoid by tanh",
        _F1,
        "r = Sigmoid(x)",
        _f("h", 0.5) + "a = Mul(x, h) b = Tanh(a) c = Mul(b, h) r = Add(c, h)",
        "reals",
        "the same function",
    ),
    # Sums and products.
    Pair(
        "transposed product",
        "float[2,3] x, float[3,4] w => float[N,M] r",
        "a = MatMul(x, w) r = Transpose(a)",
        "a = Transpose(x) b = Transpose(w) r = MatMul(b, a)",
        "reals",
        "the same sums of the same products, which another kernel may round in another way",
    ),
    Pair(
        "commuted product",
        "float[3,3] x, float[3,3] w => float[N,M] r",
        "r = MatMul(x, w)",
        "r = MatMul(w, x)",
        "wrong",
        "matrices do not commute",
    ),
    Pair(
        "Gemm",
        "float[2,3] x, float[3,4] w, float[4] b => float[N,M] r",
        "a = MatMul(x, w) r = Add(a, b)",
        "r = Gemm(x, w, b)",
        "reals",
        "the bias may be added first",
    ),
    Pair(
        "sum of sums",
        "float[2,3,4] x => float[N] r",
        _axes(1, 2) + "r = ReduceSum <keepdims = 0> (x, i)",
        "i = Constant <value_ints = [1]> () a = ReduceSum <keepdims = 0> (x, i) r = ReduceSum <keepdims = 0> (a, i)",
        "reals",
        "another order",
    ),
    Pair(
        "length of one",
        "float[2,1] x => float[N] r",
        _axes(1) + "r = ReduceL1 <keepdims = 0> (x, i)",
        _axes(1) + "r = Squeeze(x, i)",
        "wrong",
        "negative numbers",
    ),
    Pair(
        "scaled convolution",
        "float[1,2,4,4] x, float[3,2,3,3] w => float[N,C,H,W] r",
        _f("c", 2.0) + "a = Mul(x, c) r = Conv(a, w)",
        _f("c", 2.0) + "a = Mul(w, c) r = Conv(x, a)",
        "reals",
        "powers of two, but for overflow",
    ),
    Pair(
        "normalization by hand",
        "float[2,4] x, float[4] s, float[4] b => float[N,M] r",
        "r = LayerNormalization (x, s, b)",
        _axes(-1)
        + "m = ReduceMean(x, i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, i) "
        + _f("e", 1e-5)
        + "ve = Add(v, e) sd = Sqrt(ve) n = Div(d, sd) ns = Mul(n, s) r = Add(ns, b)",
        "reals",
        "the definition",
    ),
    Pair(
        "normalization of transposed",
        "float[2,4] x => float[N,M] r",
        "a = Softmax <axis = 1> (x) r = Transpose(a)",
        "a = Transpose(x) r = Softmax <axis = 0> (a)",
        "reals",
        "the same groups",
    ),
    Pair(
        "normalization along another axis",
        "float[4,4] x => float[N,M] r",
        "a = Softmax <axis = 1> (x) r = Transpose(a)",
        "a = Transpose(x) r = Softmax <axis = 1> (a)",
        "wrong",
        "other groups",
    ),
    Pair(
        "attention by hand",
        "float[1,2,4,8] q, float[1,2,4,8] k, float[1,2,4,8] v => float[1,2,4,8] r",
        "r = Attention(q, k, v)",
        "t = Transpose <perm = [0,1,3,2]> (k) s = MatMul(q, t) "
        + _f("c", 8.0)
        + "d = Sqrt(c) e = Div(s, d) p = Softmax(e) r = MatMul(p, v)",
        "reals",
        "the definition",
        opset=23,
    ),
    # Movement.
    Pair(
        "transpose twice",
        "float[2,3,4] x => float[N,M,K] r",
        "a = Transpose <perm = [2,0,1]> (x) r = Transpose <perm = [1,2,0]> (a)",
        "r = Identity(x)",
        "proved",
        "inverse permutations",
    ),
    Pair(
        "transpose of a cube",
        "float[3,3,3] x => float[N,M,K] r",
        "a = Transpose <perm = [2,0,1]> (x) r = Transpose <perm = [2,0,1]> (a)",
        "r = Identity(x)",
        "wrong",
        "sizes hide it",
    ),
    Pair(
        "split and concat",
        "float[2,6] x => float[N,M] r",
        "a, b, c = Split <axis = 1, num_outputs = 3> (x) r = Concat <axis = 1> (a, b, c)",
        "r = Identity(x)",
        "proved",
        "the parts in order",
    ),
    Pair(
        "slices",
        "float[10] x => float[N] r",
        "s = Constant <value_ints = [1]> () e = Constant <value_ints = [9]> () a = Slice(x, s, e) "
        "t = Constant <value_ints = [2]> () r = Slice(a, t, e)",
        "s = Constant <value_ints = [3]> () e = Constant <value_ints = [9]> () r = Slice(x, s, e)",
        "proved",
        "offsets add up",
    ),
    Pair(
        "padding",
        "float[2,2] x => float[N,M] r",
        "p = Constant <value_ints = [0,1,0,1]> () a = Pad(x, p) r = Neg(a)",
        "p = Constant <value_ints = [0,1,0,1]> () a = Neg(x) r = Pad(a, p)",
        "wrong",
        "the padding is −0",
        ("nsz",),
    ),
    Pair(
        "lost shape",
        "float[1] x, float[2,2] y => float[N,M] r",
        "a = Max(x, y) r = Min(x, a)",
        "r = Identity(x)",
        "wrong",
        "broadcasting is lost",
    ),
    # Quantizers and thresholds.
    Pair(
        "thresholds of whole numbers",
        "float[1,4] x => float[N,M] r",
        _f("c", 0.5) + "a = Mul(x, c) t = Constant <value = float[1,3] {-1.0, 0.25, 2.0}> () "
        "r = qonnx.custom_op.general.MultiThreshold (a, t)",
        "t = Constant <value = float[1,3] {-2.0, 1.0, 4.0}> () r = qonnx.custom_op.general.MultiThreshold (x, t)",
        "proved",
        "every integer of the range",
        domains=_WHOLE,
    ),
    Pair(
        "thresholds one too high",
        "float[1,4] x => float[N,M] r",
        _f("c", 0.5) + "a = Mul(x, c) t = Constant <value = float[1,3] {-1.0, 0.25, 2.0}> () "
        "r = qonnx.custom_op.general.MultiThreshold (a, t)",
        "t = Constant <value = float[1,3] {-2.0, 2.0, 4.0}> () r = qonnx.custom_op.general.MultiThreshold (x, t)",
        "wrong",
        "1 is decided otherwise",
        domains=_WHOLE,
    ),
    Pair(
        "a quantizer that does nothing",
        "float[4] x => float[N] r",
        _f("s", 1.0)
        + _f("z", 0.0)
        + _f("b", 8.0)
        + 'r = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)',
        _f("z", 0.0) + "r = Add(x, z)",
        "proved",
        "the range has 8 bits; −0 becomes 0",
        domains={"x": Domain(-128, 127, 1.0)},
    ),
    Pair(
        "a quantizer of too few bits",
        "float[4] x => float[N] r",
        _f("s", 1.0)
        + _f("z", 0.0)
        + _f("b", 7.0)
        + 'r = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)',
        "r = Identity(x)",
        "wrong",
        "7 bits",
        domains={"x": Domain(-128, 127, 1.0)},
    ),
    Pair(
        "quantize what was dequantized",
        "uint8[4] x => uint8[N] r",
        _f("s", 0.1) + "z = Constant <value = uint8 {7}> () a = DequantizeLinear(x, s, z) r = QuantizeLinear(a, s, z)",
        "r = Identity(x)",
        "proved",
        "every one of 256 numbers",
    ),
    Pair(
        "dequantize what was quantized",
        "float[4] x => float[N] r",
        _f("s", 0.1) + "z = Constant <value = uint8 {7}> () a = QuantizeLinear(x, s, z) r = DequantizeLinear(a, s, z)",
        "r = Identity(x)",
        "wrong",
        "rounding and saturation",
    ),
)
BATTERY = (*PUBLISHED, *OWN)
