"""Pairs of models, and what is preserved from the first to the second: the same for everyone who is asked."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from tests.passes.tools import model_of

BITS, TOLERANCE, FAILED, UNVERIFIED = "bits:sampled", "tolerance:sampled", "failed", "unverified"
DRAWS = f"{BITS} or {UNVERIFIED}"
"""As the engine seeds its generators: all have to say the same at least."""


@dataclass(frozen=True)
class Pair:
    """Two models as text; the level of the second under a claim of equality, and under the default tolerance."""

    name: str
    old: str
    new: str
    equality: str
    tolerance: str
    domains: str = ""
    opset: int = 21

    def models(self) -> tuple[ir.Model, ir.Model]:
        """Return both models, anew each time."""
        return self._model(self.old), self._model(self.new)

    def _model(self, text: str) -> ir.Model:
        return model_of(text, ir_version=10, opset=self.opset, domains=self.domains)


def _unary(name: str, old: str, new: str, equality: str, tolerance: str, kind: str = "float[4,8]") -> Pair:
    heads = [f"g ({kind} x) => ({kind} y) " + "{ " + body + " }" for body in (old, new)]
    return Pair(name, *heads, equality, tolerance)


def _float(value: str) -> str:
    return f"c = Constant <value = float {{{value}}}> ()"


_FUNCTION = """g (float[3] x) => (float[3] y) { y = my.f (x) }
<domain: "my", opset_import: ["" : 21]> f (a) => (b) { b = F (a) }"""

_EQUAL = (
    _unary("the same", "y = Relu (x)", "y = Relu (x)", BITS, BITS),
    _unary("two negations", "a = Neg (x) y = Neg (a)", "y = Identity (x)", BITS, BITS),
    _unary("operands swapped", "a = Neg (x) y = Add (a, x)", "a = Neg (x) y = Add (x, a)", BITS, BITS),
    _unary("a power of two", f"{_float('0.5')} y = Mul (x, c)", f"{_float('2')} y = Div (x, c)", BITS, BITS),
    _unary("relu as max", "y = Relu (x)", f"{_float('0')} y = Max (x, c)", FAILED, TOLERANCE),
    _unary(
        "integers wrap alike", "a = Add (x, x) y = Add (a, x)", "a = Add (x, x) y = Add (x, a)", BITS, BITS, "int8[5]"
    ),
    _unary("booleans", "a = Not (x) b = Not (a) y = And (b, x)", "y = Identity (x)", BITS, BITS, "bool[9]"),
    _unary("strings", "y = Identity (x)", "a = Identity (x) y = Identity (a)", BITS, BITS, "string[3]"),
    _unary("empty tensors", "y = Neg (x)", "y = Relu (x)", BITS, BITS, "float[0,3]"),
    _unary("a scalar", "y = Abs (x)", "a = Abs (x) y = Abs (a)", BITS, BITS, "float"),
    _unary("half precision", "a = Neg (x) y = Neg (a)", "y = Identity (x)", BITS, BITS, "float16[6]"),
    _unary("brain floats", "y = Identity (x)", "a = Identity (x) y = Identity (a)", BITS, BITS, "bfloat16[6]"),
    Pair(
        "dynamic sizes",
        "g (float[N,4] x) => (float[N,4] y) { a = Transpose <perm = [1, 0]> (x) y = Transpose <perm = [1, 0]> (a) }",
        "g (float[N,4] x) => (float[N,4] y) { y = Identity (x) }",
        BITS,
        BITS,
    ),
    Pair(
        "a sequence",
        "g (float[3] x) => (seq(float[3]) y) { a = Neg (x) y = SequenceConstruct (x, a) }",
        "g (float[3] x) => (seq(float[3]) y) { a = Neg (x) b = SequenceConstruct (x) y = SequenceInsert (b, a) }",
        BITS,
        BITS,
    ),
    Pair(
        "levels of a quantizer",
        "g (float[64] x, float s, uint8 z) => (uint8[64] y) { y = QuantizeLinear (x, s, z) }",
        "g (float[64] x, float s, uint8 z) => (uint8[64] y) { a = Identity (x) y = QuantizeLinear (a, s, z) }",
        BITS,
        BITS,
    ),
)

_ROUNDED = (
    _unary(
        "one unit in the last place",
        f"{_float('1')} y = Mul (x, c)",
        f"{_float('1.0000001')} y = Mul (x, c)",
        FAILED,
        TOLERANCE,
    ),
    _unary(
        "another order of a sum",
        f"{_float('0.3')} a = Add (x, c) b = Mul (x, x) y = Add (a, b)",
        f"{_float('0.3')} b = Mul (x, x) a = Add (c, b) y = Add (x, a)",
        FAILED,
        TOLERANCE,
    ),
    _unary("equal in real numbers", "a = Exp (x) y = Log (a)", "y = Identity (x)", FAILED, FAILED),
    _unary(
        "a division as a product",
        f"{_float('3')} y = Div (x, c)",
        f"{_float('0.33333334')} y = Mul (x, c)",
        FAILED,
        TOLERANCE,
    ),
    _unary("signs of zeros", "y = Identity (x)", f"{_float('0')} y = Add (x, c)", FAILED, TOLERANCE),
    _unary(
        "overflow on the way",
        "y = Identity (x)",
        f"{_float('1e30')} d = Constant <value = float {{1e30}}> () a = Mul (x, c) y = Div (a, d)",
        FAILED,
        TOLERANCE,
    ),
    _unary(
        "NaN is kept by one of them",
        "y = Identity (x)",
        f"a = IsNaN (x) {_float('0')} y = Where (a, c, x)",
        FAILED,
        TOLERANCE,
    ),
    _unary(
        "half precision rounds",
        f"{_float('3')} d = Cast <to = 10> (c) y = Div (x, d)",
        f"{_float('0.3333')} d = Cast <to = 10> (c) y = Mul (x, d)",
        FAILED,
        TOLERANCE,
        "float16[32]",
    ),
)

_WRONG = (
    _unary("another function", "y = Relu (x)", "y = Neg (x)", FAILED, FAILED),
    _unary("one percent", f"{_float('1')} y = Mul (x, c)", f"{_float('1.01')} y = Mul (x, c)", FAILED, FAILED),
    _unary("zero divided by zero", "y = Div (x, x)", "a = Sub (x, x) y = Exp (a)", FAILED, FAILED, "int32[8]"),
    _unary(
        "saturation for wrapping",
        "y = Add (x, x)",
        "a = Cast <to = 6> (x) b = Add (a, a) c = Constant <value = int32 {127}> () "
        "d = Min (b, c) y = Cast <to = 3> (d)",
        FAILED,
        FAILED,
        "int8[40]",
    ),
    Pair(
        "a level at its boundary",
        "g (float[64] x) => (float[64] y) { c = Constant <value = float {2}> () a = Mul (x, c) y = Floor (a) }",
        "g (float[64] x) => (float[64] y) { c = Constant <value = float {2.000001}> () a = Mul (x, c) y = Ceil (a) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "strings differ",
        "g (string[3] x) => (string[3] y) { y = StringConcat (x, x) }",
        "g (string[3] x) => (string[3] y) { y = Identity (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "a sequence in another order",
        "g (float[3] x) => (seq(float[3]) y) { a = Neg (x) y = SequenceConstruct (x, a) }",
        "g (float[3] x) => (seq(float[3]) y) { a = Neg (x) y = SequenceConstruct (a, x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "a branch that ordinary data never take",
        """g (float[3] x) => (float[3] y) {
            c = Constant <value = float {100000}> () s = ReduceMax <keepdims = 0> (x) b = Greater (s, c)
            y = If (b) <then_branch = t () => (float[3] p) { p = Neg (x) },
                        else_branch = e () => (float[3] q) { q = Relu (x) }>
        }""",
        """g (float[3] x) => (float[3] y) {
            c = Constant <value = float {100000}> () s = ReduceMax <keepdims = 0> (x) b = Greater (s, c)
            y = If (b) <then_branch = t () => (float[3] p) { p = Abs (x) },
                        else_branch = e () => (float[3] q) { q = Relu (x) }>
        }""",
        FAILED,
        FAILED,
    ),
    Pair(
        "the body of a loop",
        """g (float[3] x) => (float[3] y) {
            n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
            y = Loop (n, t, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] u) {
                d = Identity (c) u = Neg (s) }>
        }""",
        """g (float[3] x) => (float[3] y) {
            n = Constant <value = int64 {3}> () t = Constant <value = bool {1}> ()
            y = Loop (n, t, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] u) {
                d = Identity (c) u = Abs (s) }>
        }""",
        FAILED,
        FAILED,
    ),
    Pair(
        "the body of a function",
        _FUNCTION.replace("F", "Neg"),
        _FUNCTION.replace("F", "Abs"),
        FAILED,
        FAILED,
        domains='"my" : 1',
    ),
    Pair(
        "wrong for some sizes",
        "g (float[N,4] x) => (float[N,4] y) { y = Identity (x) }",
        "g (float[N,4] x) => (float[N,4] y) { s = Constant <value = int64[2] {3, 4}> () y = Reshape (x, s) }",
        FAILED,
        FAILED,
    ),
)

_INTERFACE = (
    Pair(
        "an output with another name",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (float[3] z) { z = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "outputs in another order",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Neg (x) z = Abs (x) }",
        "g (float[3] x) => (float[3] z, float[3] y) { y = Neg (x) z = Abs (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "one output less",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Neg (x) z = Abs (x) }",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "one output more",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (float[3] y, float[3] z) { y = Neg (x) z = Abs (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "another element type of an output",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (double[3] y) { a = Neg (x) y = Cast <to = 11> (a) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "another rank of an output",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (float[1,3] y) { a = Neg (x) s = Constant <value = int64[2] {1, 3}> () y = Reshape (a, s) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "another element type of an input",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (double[3] x) => (float[3] y) { a = Cast <to = 1> (x) y = Neg (a) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "an input less",
        "g (float[3] x, float[3] u) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "an input more",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x, float[3] u) => (float[3] y) { y = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "inputs in another order",
        "g (float[3] x, float[3] u) => (float[3] y) { y = Sub (x, u) }",
        "g (float[3] u, float[3] x) => (float[3] y) { y = Sub (x, u) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "a size that is fixed",
        "g (float[N,4] x) => (float[N,4] y) { y = Neg (x) }",
        "g (float[2,4] x) => (float[2,4] y) { y = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "an output declared with a size that it has not",
        "g (float[N,4] x) => (float[N,4] y) { y = Neg (x) }",
        "g (float[N,4] x) => (float[7,4] y) { y = Neg (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "a default that nobody can override any more",
        "g (float[3] x, float[3] w) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul (x, w) }",
        "g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Mul (x, w) }",
        BITS,
        BITS,
    ),
)

_NOT_RUN = (
    Pair(
        "the second does not load",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        "g (float[3] x) => (float[3] y) { y = Unheard (x) }",
        FAILED,
        FAILED,
    ),
    Pair(
        "the first does not load",
        "g (float[3] x) => (float[3] y) { y = Unheard (x) }",
        "g (float[3] x) => (float[3] y) { y = Neg (x) }",
        UNVERIFIED,
        UNVERIFIED,
    ),
    Pair(
        "random numbers",
        "g (float[3] x) => (float[3] y) { a = RandomNormalLike (x) y = Add (x, a) }",
        "g (float[3] x) => (float[3] y) { a = RandomNormalLike (x) b = Neg (a) y = Sub (x, b) }",
        DRAWS,
        DRAWS,
    ),
)

PAIRS = (*_EQUAL, *_ROUNDED, *_WRONG, *_INTERFACE, *_NOT_RUN)
