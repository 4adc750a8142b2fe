# ruff: noqa: E501 - each operator in one line of the table
"""What operators are in real numbers: the same as what defines them, and nothing else.

``onnx.reference`` says in doubles that the definitions are right, and that the wrong ones are wrong.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.proofs.real_numbers import same_in_fields

HEAD = '<ir_version: 10, opset_import: ["": 20]> g'
CONSTANTS = (
    "double zero = {0}, double one = {1}, double two = {2}, double three = {3}, double six = {6}, double half = {0.5}, double mhalf = {-0.5},"
    " double quarter = {0.25}, double four = {4}, double minus = {-1}, double tenth = {0.1}, double eps = {0.5},"
    " int64[1] last = {1}, int64[1] first = {0}, double root = {0.70710678118654757}, double cube = {0.044715},"
    " double curve = {0.79788456080286541}, double[4,2] w = {1, -2, 3, 0.5, 4, -1, 2, 2}, double[2] c = {0.5, -1},"
    " double[4] g = {1, 2, -1, 0.5}, double[4] b = {0.5, 1, 2, 3}, double[4] m = {1, -1, 0.5, 2},"
    " double[4] v = {0.5, 3.5, 1.75, 8.5}, double[4] r = {1, 2, 1.5, 3}, double[1] axis = {1}, int64[1] slot = {-1}"
)
SOFTPLUS = "e0 = Exp(x) e1 = Add(e0, one) s = Log(e1)"
REAL: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "sub": ("y = Sub(x, z)", "n = Neg(z) y = Add(x, n)", ("y = Sub(z, x)", "y = Add(x, z)")),
    "sum": ("y = Sum(x, z, x)", "a = Add(x, x) y = Add(a, z)", ("y = Add(x, z)",)),
    "mean": ("y = Mean(x, z)", "a = Add(x, z) y = Mul(a, half)", ("a = Add(x, z) y = Mul(a, quarter)", "y = Add(x, z)")),
    "product": ("a = Add(x, z) y = Mul(a, a)", "a = Mul(x, x) b0 = Mul(z, z) c0 = Mul(x, z) d = Mul(c0, two) e = Add(a, b0) y = Add(e, d)", ("a = Mul(x, x) b0 = Mul(z, z) y = Add(a, b0)",)),
    "quotient": ("y = Div(x, p)", "i = Reciprocal(p) y = Mul(x, i)", ("i = Reciprocal(p) y = Mul(i, i)", "y = Div(p, x)", "y = Mul(x, p)")),
    "divided": ("y = Div(x, four)", "y = Mul(x, quarter)", ("y = Mul(x, four)", "y = Mul(x, half)")),
    "square": ("y = Pow(x, two)", "y = Mul(x, x)", ("y = Pow(x, three)", "y = Add(x, x)")),
    "inverse": ("y = Pow(p, minus)", "y = Reciprocal(p)", ("y = Neg(p)",)),
    "power": ("y = Pow(p, half)", "y = Sqrt(p)", ("y = Pow(p, quarter)", "y = Mul(p, half)")),
    "root": ("a = Sqrt(p) y = Mul(a, a)", "y = Identity(p)", ("y = Sqrt(p)", "y = Neg(p)")),
    "exponential": ("a = Add(x, z) y = Exp(a)", "a = Exp(x) d = Exp(z) y = Mul(a, d)", ("a = Exp(x) d = Exp(z) y = Add(a, d)",)),
    "abs": ("n = Neg(x) y = Abs(n)", "y = Abs(x)", ("y = Identity(x)", "y = Neg(x)")),
    "max": ("y = Max(x, z)", "y = Max(z, x)", ("y = Min(x, z)", "y = Add(x, z)", "y = Identity(x)")),
    "min": ("y = Min(x, z)", "a = Neg(x) d = Neg(z) m0 = Max(a, d) y = Neg(m0)", ("y = Max(x, z)", "a = Neg(x) d = Neg(z) m0 = Min(a, d) y = Neg(m0)")),
    "both": ("a = Max(x, z) d = Min(x, z) y = Add(a, d)", "y = Add(x, z)", ("y = Sub(x, z)", "y = Mul(x, z)")),
    "relu": ("y = Relu(x)", "y = Max(x, zero)", ("y = Min(x, zero)", "y = Max(x, one)", "y = Abs(x)")),
    "clip": ("y = Clip(x, minus, one)", "a = Max(x, minus) y = Min(a, one)", ("a = Max(x, one) y = Min(a, minus)", "y = Max(x, minus)", "y = Min(x, one)")),
    "leaky": ("y = LeakyRelu <alpha = 0.25> (x)", "a = Max(x, zero) d = Min(x, zero) e = Mul(d, quarter) y = Add(a, e)", ("y = LeakyRelu <alpha = 0.5> (x)", "y = LeakyRelu(x)", "y = Relu(x)")),
    "prelu": ("y = PRelu(x, quarter)", "y = LeakyRelu <alpha = 0.25> (x)", ("y = LeakyRelu <alpha = 0.5> (x)", "y = Mul(x, quarter)")),
    "hard-sigmoid": ("y = HardSigmoid <alpha = 0.25, beta = 0.5> (x)", "a = Mul(x, quarter) d = Add(a, half) y = Clip(d, zero, one)", ("y = HardSigmoid <alpha = 0.5, beta = 0.25> (x)", "y = HardSigmoid(x)", "a = Mul(x, quarter) d = Add(a, half) y = Relu(d)")),
    "hard-swish": ("y = HardSwish(x)", "a = Div(x, six) d = Add(a, half) e = Clip(d, zero, one) y = Mul(x, e)", ("a = Div(x, six) d = Add(a, half) y = Clip(d, zero, one)", "a = Div(x, three) d = Add(a, half) e = Clip(d, zero, one) y = Mul(x, e)")),
    "sigmoid": ("y = Sigmoid(x)", "n = Neg(x) e = Exp(n) d = Add(e, one) y = Reciprocal(d)", ("e = Exp(x) d = Add(e, one) y = Reciprocal(d)", "n = Neg(x) e = Exp(n) y = Add(e, one)", "y = Tanh(x)")),
    "odd": ("n = Neg(x) s = Sigmoid(n) y = Sub(one, s)", "y = Sigmoid(x)", ("y = Sigmoid(z)", "n = Neg(x) y = Sigmoid(n)")),
    "tanh": ("y = Tanh(x)", "a = Mul(x, two) s = Sigmoid(a) d = Mul(s, two) y = Sub(d, one)", ("s = Sigmoid(x) d = Mul(s, two) y = Sub(d, one)", "y = Sigmoid(x)")),
    "softplus": ("y = Softplus(x)", f"{SOFTPLUS} y = Identity(s)", ("y = Exp(x)", "y = Log(p)", "e0 = Exp(x) y = Log(e0)")),
    "mish": ("y = Mish(x)", f"{SOFTPLUS} t = Tanh(s) y = Mul(x, t)", (f"{SOFTPLUS} y = Mul(x, s)", f"{SOFTPLUS} y = Tanh(s)")),
    "softsign": ("y = Softsign(x)", "a = Abs(x) d = Add(a, one) y = Div(x, d)", ("d = Add(x, one) y = Div(x, d)",)),
    "gelu": ("y = Gelu(x)", "r0 = Sqrt(half) a = Mul(x, r0) e = Erf(a) f = Add(e, one) h = Mul(x, half) y = Mul(h, f)", ('y = Gelu <approximate = "tanh"> (x)', "e = Erf(x) f = Add(e, one) h = Mul(x, half) y = Mul(h, f)", "r0 = Sqrt(half) a = Mul(x, r0) e = Erf(a) f = Add(e, one) y = Mul(x, f)")),
    "gelu-tanh": ('y = Gelu <approximate = "tanh"> (x)', "i = Pow(x, three) j = Mul(i, cube) a = Add(x, j) d = Mul(a, curve) t = Tanh(d) f = Add(t, one) h = Mul(x, half) y = Mul(h, f)", ("y = Gelu(x)", "d = Mul(x, curve) t = Tanh(d) f = Add(t, one) h = Mul(x, half) y = Mul(h, f)")),
    "sine": ("n = Neg(x) a = Sin(n) y = Neg(a)", "y = Sin(x)", ("y = Cos(x)", "n = Neg(x) y = Sin(n)")),
    "cosine": ("n = Neg(x) y = Cos(n)", "y = Cos(x)", ("y = Sin(x)", "n = Cos(x) y = Neg(n)")),
    "inverse-root": ("y = Pow(p, mhalf)", "a = Sqrt(p) y = Reciprocal(a)", ("y = Sqrt(p)", "y = Reciprocal(p)")),
    "shrink": ("n = Neg(x) m0 = Neg(n) y = Shrink <lambd = 0.5> (m0)", "y = Shrink <lambd = 0.5> (x)", ("y = Shrink <lambd = 1.5> (x)", "y = Shrink <lambd = 0.5, bias = 0.25> (x)")),
    "sinh": ("a = Cosh(x) d = Sinh(x) y = Add(a, d)", "y = Exp(x)", ("n = Neg(x) y = Exp(n)", "y = Cosh(x)")),
    "cosh": ("a = Cosh(x) d = Sinh(x) y = Sub(a, d)", "n = Neg(x) y = Exp(n)", ("y = Exp(x)", "y = Sinh(x)")),
    "where": ("y = Where(k, x, z)", "n = Not(k) y = Where(n, z, x)", ("y = Where(k, z, x)", "y = Identity(x)")),
    "and": ("a = And(k, l) y = Where(a, x, z)", "a = And(l, k) y = Where(a, x, z)", ("a = Or(l, k) y = Where(a, x, z)", "y = Where(k, x, z)")),
    "or": ("a = Or(k, l) y = Where(a, x, z)", "i = Not(k) j = Not(l) a = And(i, j) y = Where(a, z, x)", ("a = And(k, l) y = Where(a, x, z)",)),
    "reduce-sum": ("y = ReduceSum(x, last)", "n = ReduceMean(x, last) y = Mul(n, four)", ("y = ReduceMean(x, last)", "n = ReduceMean(x, last) y = Mul(n, three)")),
    "sum-square": ("y = ReduceSumSquare(x, last)", "s = Mul(x, x) y = ReduceSum(s, last)", ("y = ReduceSum(x, last)", "y = ReduceL1(x, last)")),
    "norm-1": ("y = ReduceL1(x, last)", "s = Abs(x) y = ReduceSum(s, last)", ("y = ReduceSum(x, last)",)),
    "norm-2": ("y = ReduceL2(x, last)", "s = ReduceSumSquare(x, last) y = Sqrt(s)", ("y = ReduceSumSquare(x, last)", "y = ReduceL1(x, last)")),
    "log-sum": ("y = ReduceLogSum(p, last)", "s = ReduceSum(p, last) y = Log(s)", ("y = ReduceSum(p, last)", "s = Log(p) y = ReduceSum(s, last)")),
    "log-sum-exp": ("y = ReduceLogSumExp(x, last)", "e = Exp(x) s = ReduceSum(e, last) y = Log(s)", ("y = ReduceSum(x, last)", "e = Exp(x) y = ReduceSum(e, last)")),
    "reduce-max": ("y = ReduceMax(x, last)", "n = Neg(x) s = Neg(n) y = ReduceMax(s, last)", ("y = ReduceMin(x, last)", "y = ReduceSum(x, last)")),
    "reduce-prod": ("s = Mul(x, two) y = ReduceProd(s, last)", "s = ReduceProd(x, last) t = Mul(s, four) y = Mul(t, four)", ("s = ReduceProd(x, last) y = Mul(s, two)", "y = ReduceProd(x, last)")),
    "gemm": ("y = Gemm <alpha = 0.5, beta = 2.0> (x, w, c)", "a = MatMul(x, w) d = Mul(a, half) e = Mul(c, two) y = Add(d, e)", ("y = Gemm <alpha = 2.0, beta = 0.5> (x, w, c)", "y = Gemm <alpha = 0.5> (x, w, c)", "y = Gemm <beta = 2.0> (x, w, c)")),
    "normalized": ("y = BatchNormalization <epsilon = 0.5> (x, g, b, m, v)", "a = Sub(x, m) d = Div(a, r) e = Mul(d, g) y = Add(e, b)", ("y = BatchNormalization <epsilon = 0.25> (x, g, b, m, v)", "a = Sub(x, m) d = Mul(a, r) e = Mul(d, g) y = Add(e, b)", "d = Div(x, r) e = Mul(d, g) y = Add(e, b)", "a = Sub(x, m) d = Div(a, r) y = Mul(d, g)", "a = Sub(x, m) d = Div(a, r) y = Add(d, b)")),
    "softmax": ("y = Softmax <axis = 1> (x)", "e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)", ("y = Softmax <axis = 0> (x)", "y = Exp(x)", "y = LogSoftmax <axis = 1> (x)")),
    "shifted": ("a = Add(x, three) y = Softmax(a)", "y = Softmax(x)", ("a = Mul(x, three) y = Softmax(a)",)),
    "log-softmax": ("y = LogSoftmax <axis = 0> (x)", "n = Neg(x) s = Neg(n) y = LogSoftmax <axis = 0> (s)", ("y = LogSoftmax <axis = 1> (x)", "y = Softmax <axis = 0> (x)")),
    "layer": ("y = LayerNormalization <axis = 1, epsilon = 0.5> (x, g, b)", "a = ReduceMean(x, last) d = Sub(x, a) q = Mul(d, d) u = ReduceMean(q, last) t = Add(u, eps) o = Sqrt(t) e = Div(d, o) f = Mul(e, g) y = Add(f, b)", ("y = LayerNormalization <axis = 1> (x, g, b)", "y = LayerNormalization <axis = 1, epsilon = 0.5> (x, g)", "y = LayerNormalization <axis = 1, epsilon = 0.5> (x, b, g)")),
}  # fmt: skip
INPUTS = "double[3,4] x, double[3,4] z, double[3,4] p, bool[3,4] k, bool[3,4] l"


def model(body: str) -> ir.Model:
    return ir.from_onnx_text(f"{HEAD} ({INPUTS}) => (double[M,N] y) <{CONSTANTS}> {{ {body} }}")


def values(body: str) -> list[np.ndarray]:
    evaluator = ReferenceEvaluator(ir.to_proto(model(body)))
    found: list[np.ndarray] = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        feeds = {name: rng.normal(size=(3, 4)) * 2 for name in ("x", "z")}
        feeds |= {"p": rng.uniform(0.25, 4, (3, 4)), **{name: rng.random((3, 4)) < 0.5 for name in ("k", "l")}}
        found.append(np.asarray(evaluator.run(None, feeds)[0]))
    return found


def agree(one: str, other: str) -> bool:
    pairs = zip(values(one), values(other), strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-6, equal_nan=True) for a, b in pairs)


def proved(one: str, other: str) -> bool:
    return same_in_fields(model(one), model(other), range(5), fold=False)[0]


@pytest.mark.parametrize("name", REAL)
def test_an_operator_is_what_defines_it(name: str):
    before, after, wrong = REAL[name]
    assert agree(before, after)
    assert proved(before, after)
    assert proved(after, before)
    for other in wrong:
        assert not agree(before, other), other
        assert not proved(before, other), other
        assert not proved(after, other), other


ASSUMED = {
    "y = Div(x, p)": "not zero",
    "y = Reciprocal(p)": "not zero",
    "y = BatchNormalization <epsilon = 0.5> (x, g, b, m, v)": "not zero",
}


@pytest.mark.parametrize("body", ASSUMED)
def test_what_divides_says_that_it_divides_by_no_zero(body: str):
    same, assumed = same_in_fields(model(body), model(body), range(5), fold=False)
    assert same
    assert any(ASSUMED[body] in each for each in assumed)


@pytest.mark.parametrize(
    "body",
    ["y = Add(i, j)", "y = Mul(i, j)", "y = ReduceSum(i, last)", "y = MatMul(i, t)", "y = Sub(i, j)"],
)
def test_what_computes_with_integers_says_that_they_do_not_overflow(body: str):
    text = f"{HEAD} (int32[3,3] i, int32[3,3] j, int32[3,3] t) => (int32[M,N] y) <int64[1] last = {{1}}> {{ {body} }}"
    one, other = (ir.from_onnx_text(text) for _ in range(2))
    same, assumed = same_in_fields(one, other, range(3), fold=False)
    assert same
    assert any("overflow" in each for each in assumed)


@pytest.mark.parametrize("jump", ["Floor", "Ceil", "Round", "Sign"])
def test_what_jumps_is_compared_by_how_its_operand_is_computed(jump: str):
    for body in ("a = Add(x, z) d = Sub(a, z)", "a = Mul(x, three) d = Div(a, three)"):
        assert proved(f"{body} y = Identity(d)", "y = Identity(x)")
        assert not proved(f"{body} y = {jump}(d)", f"y = {jump}(x)")
        assert proved(f"y = {jump}(x)", f"y = {jump}(x)")


@pytest.mark.parametrize("compare", ["Less", "Greater", "LessOrEqual", "Equal"])
def test_comparisons_are_of_how_their_operands_are_computed(compare: str):
    assert not proved(
        f"a = Add(x, z) d = Sub(a, z) q = {compare}(d, zero) y = Where(q, x, z)",
        f"q = {compare}(x, zero) y = Where(q, x, z)",
    )
