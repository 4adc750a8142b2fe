"""Which models may end the process that runs them."""

import onnx_ir as ir
import pytest

from onnx_passes.graph.load import load
from onnx_passes.ops.facts.risks import may_crash

HEAD = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1, "local" : 1]>'
LOOP = "<body = b (int64 i, bool c, float a) => (bool d, float e) { d = Identity(c) e = Neg(a) }>"


def model(text: str) -> ir.Model:
    return load(f"{HEAD} {text}".encode())


@pytest.mark.parametrize(
    "text",
    [
        f'g (float x, bool t) => (float y) {{ y = Loop {LOOP} ("", t, x) }}',
        "g (int64[2] x, int64[2] z) => (int64[2] y) { y = Div(x, z) }",
        "g (int64[2] x) => (int64[2] y) <int64[2] z = {1, 0}> { y = Mod(x, z) }",
        "g (int64[2] x) => (int64[2] y) <int64[2] z = {1, -1}> { y = Div(x, z) }",
        "g (float[1,9,1] x, int64 n) => (float[1,a,b,2] y) { y = STFT(x, n, , n) }",
        "g (int64[2] x, int64[2] z, bool c) => (int64[2] y) { y = If(c) <"
        "then_branch = t () => (int64[2] a) { a = Div(x, z) }, else_branch = e () => (int64[2] b) { b = Neg(x) }> }",
        "g (int64[2] x) => (int64[2] y) { y = local.f(x) }"
        ' <domain: "local", opset_import: ["" : 21]> f (a) => (b) { b = Div(a, a) }',
    ],
)
def test_what_can_crash_or_never_end(text):
    assert may_crash(model(text))


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x, float[2] z) => (float[2] y) { y = Div(x, z) }",
        "g (int64[2] x) => (int64[2] y) <int64[2] z = {2, 3}> { y = Div(x, z) }",
        "g (int64[2] x) => (int64[2] y) { z = Constant <value_int = 160> () y = Mod(x, z) }",
        "g (float[2,3] x) => (float[2,3] y) { a = Mul(x, x) b = ReduceMean(a) c = Sqrt(b) d = Div(x, c) y = Neg(d) }",
        "g (float[2,3] x) => (float[2,3] y) { a = Sqrt(x) b = Add(a, a) c = Unsqueeze(b, s) d = Div(c, c)"
        " y = Squeeze(d) } ".replace("g (", "g (").replace("{ a", "<int64[1] s = {0}> { a"),
    ],
)
def test_what_cannot(text):
    assert not may_crash(model(text))
