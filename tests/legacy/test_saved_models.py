"""Models as version 0.4 saves them: with functions, whose bodies refer to attributes of the call."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes import apply, run_model

OPERATORS = "onnx_passes.ops"
SAVED = """
<ir_version: 10, opset_import: ["": 19, "onnx_passes.ops": 1]>
g (float[2, 3] x) => (float[3, 2] y)
{
    s = onnx_passes.ops.Swish <beta: float = 2.0> (x)
    y = onnx_passes.ops.LayoutConverter <assumes: strings = ["N", "C"], perm: ints = [1, 0]> (s)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
Swish <beta> (x) => (y) {
    b = Constant <value_float: float = @beta> ()  m = Mul (x, b)  g = Sigmoid (m)  y = Mul (x, g)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
LayoutConverter <assumes, perm> (x) => (y) { y = Transpose <perm: ints = @perm> (x) }
"""


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.onnx"
    onnx.save(onnx.parser.parse_model(SAVED), path)
    return path


def expected(x: np.ndarray) -> np.ndarray:
    return (x / (1 + np.exp(-2 * x))).T


def test_they_run(saved):
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run_model(saved, {"x": x})["y"], expected(x), rtol=1e-5)


@pytest.mark.parametrize("pipeline", ["cleanup", "inline-functions", "simplify", "streamline"])
def test_passes_on_them_are_verified(saved, pipeline):
    result = apply(saved, pipeline)
    assert all("unverified" not in str(step.evidence) for step in result.steps if step.modified)
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run_model(result.model, {"x": x})["y"], expected(x), rtol=1e-5)


QUANTIZED = """
<ir_version: 10, opset_import: ["": 19, "onnx_passes.ops": 1]>
g (float[2, 3] x) => (float[3, 2] y)
<float s = {0.25}, float z = {0.0}, float bits = {3.0}, float[2] w = {1.0, 2.0},
float[3, 2] t = {-0.5, 0.5, 0.0, 1.0, 0.25, 0.75}>
{
    q = onnx_passes.ops.Quant <signed: int = 1, narrow: int = 0, rounding_mode: string = "MODE"> (x, s, z, bits)
    m = onnx_passes.ops.MultiThreshold (q, t, w)
    y = onnx_passes.ops.LayoutConverter <assumes: strings = ["N", "C"], perm: ints = [1, 0]> (m)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
Quant <signed, narrow, rounding_mode> (x, scale, zero, bits) => (y) {
    one = Constant <value_float: float = 1.0> ()  two = Constant <value_float: float = 2.0> ()
    i = Constant <value_int: int = @signed> ()  signs = Cast <to: int = 1> (i)
    n = Sub (bits, signs)  high = Pow (two, n)  low = Neg (high)  most = Sub (high, one)
    a = Div (x, scale)  b = Add (a, zero)  c = Clip (b, low, most)  d = Round (c)  e = Sub (d, zero)  y = Mul (e, scale)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
MultiThreshold (x, thresholds, weights) => (y) {
    last = Constant <value_ints: ints = [-1]> ()
    u = Unsqueeze (x, last)  r = GreaterOrEqual (u, thresholds)  f = Cast <to: int = 1> (r)
    p = Mul (weights, f)  y = ReduceSum <keepdims: int = 0> (p, last)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
LayoutConverter <assumes, perm> (x) => (y) { y = Transpose <perm: ints = @perm> (x) }
<domain: "onnx_passes.ops", opset_import: ["": 19]>
Unused (x) => (y) { y = Relu (x) }
"""


def quantized(mode: str = "ROUND"):
    return ir.from_proto(onnx.parser.parse_model(QUANTIZED.replace("MODE", mode)))


def test_operators_of_their_own_become_those_defined_here():
    result = apply(quantized(), "eject-ops")
    assert [(node.domain, node.op_type) for node in result.model.graph] == [
        ("qonnx.custom_op.general", "Quant"),
        ("onnx_passes", "MultiThreshold"),
        ("onnx_passes", "LayoutConverter"),
    ]
    assert not result.model.functions
    assert OPERATORS not in result.model.opset_imports
    assert result.steps[-1].evidence.level == "bits:sampled"
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    expected = run_model(quantized(), {"x": x})["y"]
    np.testing.assert_array_equal(run_model(result.model, {"x": x})["y"], expected)


def test_roundings_that_0_4_takes_for_another_stay_functions():
    result = apply(quantized("HALF_UP"), "eject-ops").model
    assert [node.domain for node in result.graph] == [OPERATORS, "onnx_passes", "onnx_passes"]
    assert [name for _, name, _ in result.functions] == ["Quant"]


def test_what_has_no_counterpart_stays_a_function(saved):
    result = apply(saved, "eject-ops").model
    assert [(node.domain, node.op_type) for node in result.graph] == [
        (OPERATORS, "Swish"),
        ("onnx_passes", "LayoutConverter"),
    ]
    assert [name for _, name, _ in result.functions] == ["Swish"]


def test_they_are_streamlined():
    result = apply(quantized(), "streamline").model
    assert "MultiThreshold" in [node.op_type for node in result.graph]
    assert not any(node.domain == OPERATORS for node in result.graph)


def test_inline_qonnx_takes_them_apart():
    result = apply(quantized(), "inline-qonnx").model
    assert not [node for node in result.graph if node.domain]
