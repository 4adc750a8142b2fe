"""Rewrites that are wrong only for NaN, infinities, signed zeros, the greatest and smallest numbers, or flat rows."""

from __future__ import annotations

import numpy as np

from onnx_passes import constant, passes
from tests.planted.planting import Fault
from tests.planted.rare import chain, planted

ZERO, ONE = np.float32(0), np.float32(1)
NORM = "m = ReduceMean<keepdims=1>(x, last) c = Sub(x, m) s = Mul(c, c) var = ReduceMean<keepdims=1>(s, last) "
LAST = "int64[1] last = {-1}"


def _norm_pattern(self, op, x, last):
    c = op.Sub(x, op.ReduceMean(x, last, keepdims=1))
    return op.ReduceMean(op.Mul(c, c), last, keepdims=1)


FAULTS: list[Fault] = [
    planted(
        "Relu by comparison",
        "NaN",
        chain("v = Neg(x) w = Relu(v) y = Neg(w)"),
        lambda self, op, v: op.Relu(v),
        lambda self, op, v: op.Where(op.Greater(v, ZERO), v, ZERO),
    ),
    planted(
        "Max by comparison",
        "NaN",
        chain("v = Mul(x, two) w = Max(v, three) y = Neg(w)", initializers="float two = {2.0}, float three = {3.0}"),
        lambda self, op, v, three: op.Max(v, three),
        lambda self, op, v, three: op.Where(op.Greater(v, three), v, three),
    ),
    planted(
        "Min by comparison",
        "NaN",
        chain("v = Abs(x) w = Min(v, six) y = Neg(w)", initializers="float six = {6.0}"),
        lambda self, op, v, six: op.Min(v, six),
        lambda self, op, v, six: op.Where(op.Less(v, six), v, six),
    ),
    planted(
        "Clip by comparison",
        "NaN",
        chain("v = Neg(x) w = Clip(v, a, b) y = Neg(w)", initializers="float a = {-1.0}, float b = {1.0}"),
        lambda self, op, v, a, b: op.Clip(v, a, b),
        lambda self, op, v, a, b: op.Where(op.Less(v, b), op.Where(op.Greater(v, a), v, a), b),
    ),
    planted(
        "NaN never replaced",
        "NaN",
        chain("v = Neg(x) n = IsNaN(v) w = Where(n, zero, v) y = Neg(w)", initializers="float zero = {0.0}"),
        lambda self, op, v, zero: op.Where(op.IsNaN(v), zero, v),
        lambda self, op, v, zero: op.Identity(v),
    ),
    planted(
        "not less, so greater or equal",
        "NaN",
        chain("v = Neg(x) l = Less(v, c) w = Not(l) y = Identity(w)", result="bool", initializers="float c = {0.3}"),
        lambda self, op, v, c: op.Not(op.Less(v, c)),
        lambda self, op, v, c: op.GreaterOrEqual(v, c),
    ),
    planted(
        "a number equals itself",
        "NaN",
        chain("v = Neg(x) e = Equal(v, v) w = Where(e, v, c) y = Neg(w)", initializers="float c = {9.0}"),
        lambda self, op, v, c: op.Where(op.Equal(v, v), v, c),
        lambda self, op, v, c: op.Identity(v),
    ),
    planted(
        "a factor of zero",
        "NaN",
        chain("v = Abs(x) m = Mul(v, zero) y = Add(m, one)", initializers="float zero = {0.0}, float one = {1.0}"),
        lambda self, op, v, zero: op.Mul(v, zero),
        lambda self, op, v, zero: op.Expand(zero, op.Shape(v)),
        check=lambda self, op, v, zero: constant(zero) is not None and not constant(zero).any(),
    ),
    planted(
        "infinity is never met",
        "infinity",
        chain("v = Neg(x) i = IsInf(v) w = Where(i, big, v) y = Neg(w)", initializers="float big = {1000000.0}"),
        lambda self, op, v, big: op.Where(op.IsInf(v), big, v),
        lambda self, op, v, big: op.Identity(v),
    ),
    planted(
        "a number minus itself",
        "infinity",
        chain("v = Neg(x) d = Sub(v, v) y = Add(d, one)", initializers="float one = {1.0}"),
        lambda self, op, v: op.Sub(v, v),
        lambda self, op, v: op.Expand(ZERO, op.Shape(v)),
    ),
    planted(
        "square root by power",
        "infinity",
        chain("v = Abs(x) n = Neg(v) w = Pow(n, half) y = Neg(w)", initializers="float half = {0.5}"),
        lambda self, op, n, half: op.Pow(n, half),
        lambda self, op, n, half: op.Sqrt(n),
    ),
    planted(
        "no bounds at all",
        "infinity",
        chain("v = Neg(x) w = Clip(v) y = Neg(w)"),
        lambda self, op, v: op.Clip(v),
        lambda self, op, v: op.Identity(v),
    ),
    planted(
        "minus zero plus zero",
        "signed zero",
        chain("v = Mul(x, c) w = Add(v, zero) y = Neg(w)", initializers="float c = {0.5}, float zero = {0.0}"),
        lambda self, op, v, zero: op.Add(v, zero),
        lambda self, op, v, zero: op.Identity(v),
        check=lambda self, op, v, zero: constant(zero) is not None and not constant(zero).any(),
    ),
    planted(
        "zero behind a term minus a number",
        "signed zero",
        chain(
            "v = Add(x, c) w = Sub(zero, v) y = Mul(w, two)",
            initializers="float c = {0.37}, float zero = {0.0}, float two = {2.0}",
        ),
        lambda self, op, v, zero: op.Sub(zero, v),
        lambda self, op, v, zero: op.Neg(v),
        check=lambda self, op, v, zero: constant(zero) is not None and not constant(zero).any(),
    ),
    planted(
        "root of a square",
        "overflow",
        chain("v = Neg(x) s = Mul(v, v) w = Sqrt(s) y = Neg(w)"),
        lambda self, op, v: op.Sqrt(op.Mul(v, v)),
        lambda self, op, v: op.Abs(v),
    ),
    planted(
        "factors multiplied first",
        "overflow",
        chain(
            "v = Neg(x) a = Mul(v, large) w = Mul(a, small) y = Neg(w)",
            initializers="float large = {1024.0}, float small = {0.0009765625}",
        ),
        lambda self, op, v, large, small: op.Mul(op.Mul(v, large), small),
        lambda self, op, v, large, small: op.Identity(v),
    ),
    planted(
        "double in float range",
        "overflow",
        chain("v = Neg(x) f = Cast<to=1>(v) d = Cast<to=11>(f) y = Neg(d)", dtype="double"),
        lambda self, op, v: op.Cast(op.Cast(v, to=1), to=11),
        lambda self, op, v: op.Where(op.Less(op.Abs(v), np.array(1e39)), op.Cast(op.Cast(v, to=1), to=11), v),
    ),
    planted(
        "half of a small number",
        "underflow",
        chain(
            "v = Neg(x) a = Mul(v, half) w = Mul(a, two) y = Neg(w)",
            initializers="float half = {0.5}, float two = {2.0}",
        ),
        lambda self, op, v, half, two: op.Mul(op.Mul(v, half), two),
        lambda self, op, v, half, two: op.Identity(v),
    ),
    planted(
        "Softmax without its maximum",
        "overflow",
        chain("v = Mul(x, c) w = Softmax<axis=-1>(v) y = Neg(w)", initializers="float c = {0.02}"),
        lambda self, op, v: op.Softmax(v),
        lambda self, op, v: op.Div(op.Exp(v), op.ReduceSum(op.Exp(v), np.array([-1]), keepdims=1)),
        claim=passes.verify.tolerance,
    ),
    planted(
        "Sigmoid by a quotient",
        "overflow",
        chain("v = Mul(x, c) w = Sigmoid(v) y = Neg(w)", initializers="float c = {0.05}"),
        lambda self, op, v: op.Sigmoid(v),
        lambda self, op, v: op.Div(op.Exp(v), op.Add(op.Exp(v), ONE)),
        claim=passes.verify.tolerance,
    ),
    planted(
        "variance by squares",
        "flat row",
        chain(
            NORM + "e = Add(var, eps) r = Sqrt(e) k = ReduceMean<keepdims=1>(x, last) n = Sub(x, k) y = Div(n, r)",
            shape="4,64",
            initializers=f"{LAST}, float eps = {{0.00001}}",
        ),
        _norm_pattern,
        lambda self, op, x, last: op.Sub(
            op.ReduceMean(op.Mul(x, x), last, keepdims=1),
            op.Mul(op.ReduceMean(x, last, keepdims=1), op.ReduceMean(x, last, keepdims=1)),
        ),
        claim=passes.verify.tolerance,
    ),
    planted(
        "smaller epsilon of a norm",
        "flat row",
        chain(
            "w = LayerNormalization<axis=-1, epsilon=0.00001>(x, scale) y = Neg(w)",
            shape="4,16",
            initializers="float[16] scale = {" + ", ".join("1" for _ in range(16)) + "}",
        ),
        lambda self, op, x, scale: op.LayerNormalization(x, scale),
        lambda self, op, x, scale: op.LayerNormalization(x, scale, axis=-1, epsilon=1e-6),
        claim=passes.verify.tolerance,
    ),
    planted(
        "norm of a row of zeros",
        "flat row",
        chain(
            "a = ReduceL2<keepdims=1>(x, last) n = Max(a, tiny) y = Div(x, n)",
            shape="4,16",
            initializers=f"{LAST}, float tiny = {{0.000000000001}}",
        ),
        lambda self, op, a, tiny: op.Max(a, tiny),
        lambda self, op, a, tiny: op.Identity(a),
    ),
    planted(
        "a number over itself",
        "zero",
        chain("v = Sub(x, c) d = Div(v, v) y = Neg(d)", initializers="float c = {0.37}"),
        lambda self, op, v: op.Div(v, v),
        lambda self, op, v: op.Expand(ONE, op.Shape(v)),
    ),
    planted(
        "logarithm behind a term",
        "zero",
        chain("a = Abs(x) v = Sub(a, c) r = Relu(v) y = Log(r)", initializers="float c = {0.37}"),
        lambda self, op, v: op.Log(op.Relu(v)),
        lambda self, op, v: op.Log(op.Max(v, np.float32(1e-30))),
        claim=passes.verify.tolerance,
    ),
    planted(
        "the last of equal maxima",
        "tie",
        chain("v = Tanh(x) w = ArgMax<axis=-1, keepdims=0>(v) y = Neg(w)", dtype="float", result="int64"),
        lambda self, op, v: op.ArgMax(v),
        lambda self, op, v: op.ArgMax(v, axis=-1, keepdims=0, select_last_index=1),
    ),
    planted(
        "Gelu by tanh",
        "approximation",
        chain("v = Neg(x) w = Gelu(v) y = Neg(w)", shape="2,4"),
        lambda self, op, v: op.Gelu(v),
        lambda self, op, v: op.Gelu(v, approximate="tanh"),
        claim=passes.verify.tolerance,
    ),
    planted(
        "half precision on the way",
        "overflow",
        chain("v = Neg(x) h = Cast<to=10>(v) f = Cast<to=1>(h) y = Neg(f)"),
        lambda self, op, v: op.Cast(op.Cast(v, to=10), to=1),
        lambda self, op, v: op.Cast(op.Cast(op.Clip(v, np.float32(-65504), np.float32(65504)), to=10), to=1),
    ),
]
