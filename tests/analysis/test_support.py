from __future__ import annotations

import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.analysis.support import support_of

MODEL = """
<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1, "local": 1, "other": 1, "qonnx.custom_op.general": 1]>
g (float[2] x) => (y) {
    a = Relu(x)
    b = com.microsoft.QuickGelu(a)
    c = local.Twice(b)
    d = qonnx.custom_op.general.BipolarQuant(c, x)
    e = Gelu(d)
    k = Constant <value_float = 1.0> ()
    f = HardSwish(e)
    y = other.Thing(f, k)
}
<domain: "local", opset_import: ["": 17]> Twice (p) => (q) { q = Add(p, p) }
"""


def test_says_who_defines_an_operator():
    found = {support.operator: support for support in support_of(ir.from_onnx_text(MODEL))}
    assert {name: support.defined_by for name, support in found.items()} == {
        "Relu": "onnx",
        "com.microsoft::QuickGelu": "onnxruntime",
        "local::Twice": "function",
        "qonnx.custom_op.general::BipolarQuant": "quantized networks",
        "Gelu": "nothing",  # ONNX has it since opset 20.
        "Constant": "onnx",
        "HardSwish": "onnx",
        "other::Thing": "nothing",
        "Add": "onnx",
    }
    assert [name for name, support in found.items() if support.is_plain] == ["Relu", "Constant", "HardSwish", "Add"]


@pytest.mark.parametrize(
    ("body", "opset", "dtype"),
    [
        ("y = Relu(x)", 14, "float"),
        ("y = Gelu(x)", 20, "float"),
        ("y = HardSwish(x)", 14, "float"),
        ("y = Mish(x)", 18, "float"),
        ("y = ImageDecoder(x)", 20, "uint8"),
        ("y = Mean(x, x)", 13, "float"),
        ("y = NonZero(x)", 13, "float"),
    ],
)
def test_kernels_are_those_of_a_session(body, opset, dtype):
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": {opset}]> g ({dtype}[n] x) => (y) {{ {body} }}')
    try:
        onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
        implemented = True
    except Exception as error:  # noqa: BLE001 - ONNX Runtime raises many kinds
        implemented = "NOT_IMPLEMENTED" not in str(error)
    assert all(support.kernel is not False for support in support_of(model)) == implemented
