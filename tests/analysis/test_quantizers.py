from __future__ import annotations

import onnx_ir as ir

from onnx_passes import apply, examples, load
from onnx_passes.analysis.support import QuantizerKind, quantizers_of


def model_of(body: str, *, domains: str = "") -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 21{domains}]> {body}')


def test_quantizers_of_qonnx():
    found = quantizers_of(load(examples.path("digits-cnn")))
    assert found[QuantizerKind("qonnx.custom_op.general::Quant", 4.0, True, "weights", "channel")] == 4
    assert found[QuantizerKind("qonnx.custom_op.general::Quant", 4.0, False, "activations", "tensor")] == 5


def test_linear_quantizers_take_their_bits_from_the_integer_side():
    model = model_of("""g (float[2, 3] x) => (y)
    <float s = {0.1}, int4 z = {0}, int8[3] w = {1, 2, 3}, float[3] ws = {0.1, 0.2, 0.3}> {
        q = QuantizeLinear (x, s, z)
        d = Identity (q)
        f = DequantizeLinear (d, s, z)
        weights = DequantizeLinear <axis = 0> (w, ws)
        y = Mul (f, weights)
    }""")
    model = apply(model, "shape-inference", verify=False).model
    assert quantizers_of(model) == {
        QuantizerKind("QuantizeLinear", 4.0, True, "activations", "tensor"): 1,
        QuantizerKind("DequantizeLinear", 4.0, True, "activations", "tensor"): 1,
        QuantizerKind("DequantizeLinear", 8.0, True, "weights", "channel"): 1,
    }


def test_bits_that_depend_on_the_run_are_not_known():
    text = """g (float[2] x, float b) => (y) <float s = {0.1}, float z = {0.0}>
    { y = qonnx.custom_op.general.Quant (x, s, z, b) }"""
    (found,) = quantizers_of(model_of(text, domains=', "qonnx.custom_op.general": 1'))
    assert found.bits is None
    assert "? bits" in str(found)


def test_thresholds_have_the_bits_of_their_steps():
    text = "g (float[2, 3] x, float[3, 15] t) => (y) { y = qonnx.custom_op.general.MultiThreshold (x, t) }"
    (found,) = quantizers_of(model_of(text, domains=', "qonnx.custom_op.general": 1'))
    assert found.bits == 4.0
