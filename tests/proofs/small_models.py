"""Small models of all that a certificate has to cover: subgraphs, functions, operator sets, randomness, interfaces."""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir

from tests.helpers.random_models import random_model

_HEAD = '<ir_version: 10, opset_import: ["" : {opset}, "d" : 1]>\n'
_F4 = "g (float[4] x, float[4] u) => (float[4] y) "
_CHOICE = "g (float[4] x, float[4] u, bool c) => (float[4] y) "
_TWO = "n = Constant <value = int64 {2}> () t = Constant <value = bool {1}> () "


def _function(name: str, body: str, opset: int = 21, signature: str = "(a) => (b)", attributes: str = "") -> str:
    return f'<domain: "d", opset_import: ["" : {opset}, "d" : 1]>\n{name} {attributes}{signature} {{ {body} }}\n'


TEXTS: dict[str, tuple[str, int]] = {
    "elementwise": (_F4 + "{ a = Neg (x) b = Tanh (a) y = Add (b, u) }", 21),
    "difference": (_F4 + "{ a = Abs (x) b = Exp (u) y = Sub (a, b) }", 18),
    "attribute": (_F4 + "{ a = LeakyRelu <alpha = 0.25> (x) b = Elu <alpha = 2.0> (u) y = Mul (a, b) }", 16),
    "clipped": (_F4 + "{ l = Constant <value_float = -1.0> () h = Constant <value_float = 1.5> () "
                "a = Clip (x, l, h) y = Max (a, u) }", 21),
    "rounded": (_F4 + "{ a = Round (x) b = Floor (u) c = Sub (a, b) y = Relu (c) }", 21),
    "softmax": ("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax (x) }", 12),
    "log-softmax": ("g (float[2,3,4] x) => (float[2,3,4] y) { a = Relu (x) y = LogSoftmax (a) }", 12),
    "hardmax": ("g (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax (x) }", 12),
    "product": ("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { a = MatMul (x, w) y = Relu (a) }", 21),
    "gemm": ("g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {1.0, 2.0, -1.0, 0.5, 0.25, 3.0}, float[2] b = "
             "{1.0, -2.0}> { y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b) }", 21),
    "convolution": ("g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,3,3] w = {1.0, 2.0, -1.0, 0.5, 0.25, 3.0, "
                    "1.5, -0.5, 2.5}> { y = Conv <pads = [1, 1, 1, 1]> (x, w) }", 21),
    "pooling": ("g (float[1,2,4,4] x) => (float[1,2,2,2] y) { y = MaxPool <kernel_shape = [2, 2], "
                "strides = [2, 2]> (x) }",
                21),
    "average": ("g (float[1,2,4,4] x) => (float[1,2,1,1] y) { a = Relu (x) y = GlobalAveragePool (a) }", 21),
    "sum": ("g (float[3,4] x) => (float[3,1] y) { i = Constant <value_ints = [1]> () y = ReduceSum (x, i) }", 13),
    "mean": ("g (float[3,4] x) => (float[3,1] y) { y = ReduceMean <axes = [1]> (x) }", 13),
    "integer sum": ("g (int32[3] x) => (int32[1] y) { i = Constant <value_ints = [0]> () y = ReduceSum (x, i) }", 13),
    "integers": ("g (int32[4] x, int32[4] u) => (int32[4] y) { a = Add (x, u) b = Mul (a, x) y = Sub (b, u) }", 21),
    "quotient": ("g (int32[4] x) => (int32[4] y) { c = Constant <value = int32 {3}> () y = Div (x, c) }", 21),
    "shift": ("g (uint8[4] x) => (uint8[4] y) { c = Constant <value = uint8 {1}> () "
              'y = BitShift <direction = "LEFT"> (x, c) }', 21),
    "truth": ("g (bool[4] x, bool[4] u) => (bool[4] y) { a = And (x, u) b = Or (x, u) c = Not (a) y = Xor (c, b) }",
        21),
    "comparison": (_F4.replace("float[4] y", "bool[4] y") + "{ a = Less (x, u) b = Greater (x, u) y = Or (a, b) }", 21),
    "choice of elements": (_F4 + "{ c = Less (x, u) y = Where (c, x, u) }", 21),
    "cast": ("g (float[4] x) => (int32[4] y) { a = Clip (x) y = Cast <to = 6> (a) }", 21),
    "half": ("g (float16[4] x) => (float16[4] y) { a = Abs (x) y = Sqrt (a) }", 21),
    "moved": ("g (float[2,3] x) => (float[3,2] y) { y = Transpose <perm = [1, 0]> (x) }", 21),
    "joined": ("g (float[2,2] x, float[2,2] u) => (float[4,2] y) { y = Concat <axis = 0> (x, u) }", 21),
    "sliced": ("g (float[4] x) => (float[2] y) { s = Constant <value_ints = [1]> () e = Constant <value_ints = [3]> () "
               "y = Slice (x, s, e) }", 21),
    "padded": ("g (float[2] x) => (float[4] y) { p = Constant <value_ints = [1, 1]> () y = Pad (x, p) }", 21),
    "resized": ("g (float[1,1,2,2] x) => (float[1,1,4,4] y) { s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () "
                'y = Resize <mode = "nearest"> (x, , s) }', 13),
    "sorted": ("g (float[4] x) => (float[2] y, int64[2] z) { k = Constant <value_ints = [2]> () y, z = TopK (x, k) }",
        21),
    "argument": ("g (float[2,4] x) => (int64[2,1] y) { y = ArgMax <axis = 1> (x) }", 12),
    "quantized": (_F4 + "{ s = Constant <value_float = 0.1> () z = Constant <value = uint8 {3}> () "
                  "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }", 13),
    "dropout at rest": (_F4 + "{ a, m = Dropout (x) y = Add (a, u) }", 13),
    "normalization": ("g (float[2,4] x, float[4] w) => (float[2,4] y) { y = LayerNormalization (x, w) }", 21),
    "several outputs": ("g (float[4] x, float[4] u) => (float[4] y, float[4] z) { y = Add (x, u) z = Sub (x, u) }", 21),
    "shared": ("g (float[4] x) => (float[4] y, float[4] z) { a = Tanh (x) y = Neg (a) z = Abs (a) }", 21),
    "default": ("g (float[4] x, float[4] w) => (float[4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> { y = Mul (x, w) }",
        21),
    "branches": (_CHOICE + "{ v = Neg (x) y = If (c) <then_branch = t () => (float[4] p) { p = Abs (v) }, "
                 "else_branch = e () => (float[4] q) { q = Mul (v, u) }> }", 21),
    "captures": (_CHOICE + "{ v = Neg (x) w = Relu (u) y = If (c) <then_branch = t () => (float[4] p) "
                 "{ p = Identity (v) }, else_branch = e () => (float[4] q) { q = Identity (w) }> }", 21),
    "nested branches": (_CHOICE + "{ v = Neg (x) y = If (c) <then_branch = t () => (float[4] p) { p = If "
                        "(c) <then_branch "
                        "= t2 () => (float[4] p2) { p2 = Add (v, u) }, else_branch = e2 () => (float[4] q2) "
                        "{ q2 = Abs (u) }> }, else_branch = e () => (float[4] q) { q = Sub (v, u) }> }", 21),
    "loop": (_F4 + "{ " + _TWO + "y = Loop (n, t, x) <body = b (int64 i, bool k, float[4] s) => (bool k2, float[4] s2) "
             "{ k2 = Identity (k) s2 = Mul (s, u) }> }", 21),
    "scanning loop": ("g (float[4] x, float[4] u) => (float[4] y, float[2,4] z) { " + _TWO + "y, z = Loop (n, t, x) "
                      "<body = b (int64 i, bool k, float[4] s) => (bool k2, float[4] s2, float[4] r) "
                      "{ k2 = Identity (k) s2 = Sub (s, u) r = Abs (s2) }> }", 21),
    "loop with an end": (_F4 + "{ " + _TWO + "y = Loop (n, t, x) <body = b (int64 i, bool k, float[4] s) => "
                         "(bool k2, float[4] s2) { o = Constant <value = int64 {0}> () k2 = Less (i, o) "
                         "s2 = Sub (s, u) }> }", 21),
    "scan": ("g (float[4] x, float[3,4] u) => (float[4] y, float[3,4] z) { y, z = Scan <num_scan_inputs = 1, "
             "body = b (float[4] s, float[4] r) => (float[4] s2, float[4] z2) { s2 = Sub (s, r) z2 = "
             "Tanh (s2) }> (x, u) }",
             21),
    "scan backwards": ("g (float[4] x, float[3,4] u) => (float[4] y, float[3,4] z) { y, z = Scan <num_scan_inputs = 1, "
                       "scan_input_directions = [1], body = b (float[4] s, float[4] r) => (float[4] s2, float[4] z2) "
                       "{ s2 = Sub (s, r) z2 = Tanh (s2) }> (x, u) }", 21),
    "function": (_F4 + "{ y = d.F (x, u) }\n" + _function("F", "c = Neg (a) b = Sub (c, e)", signature="(a, e) => (b)"),
        21),
    "function with an attribute": (_F4 + "{ y = d.F <k = 0.5> (x) }\n"
                                   + _function("F", "b = LeakyRelu <alpha: float = @k> (a)", attributes="<k> "), 21),
    "function with a default": (_F4 + "{ y = d.F (x) }\n"
                                + _function("F", "b = LeakyRelu <alpha: float = @k> (a)",
                                            attributes="<k: float = 0.5> "),
                                21),
    "function of another operator set": ("g (float[2,3,4] x) => (float[2,3,4] y) { y = d.F (x) }\n"
                                         + _function("F", "b = Softmax (a)", 13), 21),
    "nested functions": (_F4 + "{ y = d.F (x) }\n" + _function("G", "b = Relu (a)") + _function("F", "b = d.G (a)"),
        21),
    "functions three deep": (_F4 + "{ v = d.F (x) y = Add (v, u) }\n" + _function("H", "b = Sigmoid (a)")
                             + _function("G", "c = d.H (a) b = Neg (c)") + _function("F", "b = d.G (a)"), 21),
    "function in a branch": (_CHOICE + "{ y = If (c) <then_branch = t () => (float[4] p) { p = d.G (x) }, "
                             "else_branch = e () => (float[4] q) { q = Neg (u) }> }\n" + _function("G", "b = Relu (a)"),
                             21),
    "function in a loop": (_F4 + "{ " + _TWO + "y = Loop (n, t, x) <body = b (int64 i, bool k, float[4] s) => "
                           "(bool k2, float[4] s2) { k2 = Identity (k) s2 = d.G (s) }> }\n"
                           + _function("G", "b = Tanh (a)"),
                           21),
    "two draws": (_F4 + "{ a = RandomNormalLike (x) b = RandomNormalLike (x) c = Sub (a, b) y = Add (c, u) }", 21),
    "one draw": (_F4 + "{ a = RandomNormalLike (x) b = Neg (a) c = Sub (a, b) y = Add (c, u) }", 21),
    "seeds": (_F4 + "{ a = RandomUniformLike <seed = 1.0> (x) b = RandomUniformLike <seed = 2.0> (x) c = Sub (a, b) "
              "y = Add (c, u) }", 21),
    "draws of different kinds": (_F4 + "{ a = RandomNormal <shape = [4]> () b = RandomUniform <shape = [4]> () "
                                 "c = Mul (a, b) y = Add (c, x) }", 21),
    "dropout in training": (_F4 + "{ r = Constant <value = float {0.5}> () t = Constant <value = bool {1}> () "
                            "a, m = Dropout (x, r, t) b, n = Dropout (x, r, t) y = Sub (a, b) }", 21),
    "draw in a branch": (_CHOICE + "{ v = RandomNormalLike (x) y = If (c) <then_branch = t () => (float[4] p) "
                         "{ w = RandomNormalLike (x) p = Sub (v, w) }, else_branch = e () => (float[4] q) "
                         "{ q = Sub (v, u) }> }", 21),
    "draw in a function": (_F4 + "{ a = d.F (x) b = d.F (x) y = Sub (a, b) }\n"
                           + _function("F", "c = RandomNormalLike (a) b = Add (c, a)"), 21),
}  # fmt: skip
_RANDOM_MODELS = 12


def small_models() -> dict[str, ir.Model]:
    """Build all models: those written here, and random ones with branches."""
    found = {name: ir.from_proto(onnx.parser.parse_model(_HEAD.format(opset=opset) + text))
             for name, (text, opset) in TEXTS.items()}  # fmt: skip
    return {**found, **{f"random {seed}": random_model(seed, nodes=7) for seed in range(_RANDOM_MODELS)}}
