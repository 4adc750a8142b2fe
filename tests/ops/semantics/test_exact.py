"""The oracle in exact arithmetic, beside ONNX Runtime where floats round nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from onnx_passes.numbers.arithmetic import UnknownOperatorError
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.semantics.exact import evaluate

HEAD = '<ir_version: 10, opset_import: ["": 17]>'
W = "float[4,2,2,2] w = {1,2,-1,0.5, 0,1,1,-2, 3,-0.5,1,1, 2,2,-1,-1, 0,0,1,0.25, -1,1,-1,1, 1,1,1,1, 0.5,-2,4,8}"
BODIES = {
    "conv": f"float[N,4,A,B] y|{W}|y = Conv <strides = [2, 1], pads = [1, 0, 1, 1]> (x, w)",
    "groups": "float[N,2,A,B] y|float[2,1,2,2] w = {1,2,3,4,-1,0.5,2,8}|y = Conv <group = 2> (x, w)",
    "maximum": "float[N,2,A,B] y||y = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> (x)",
    "average": "float[N,2,A,B] y||y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)",
    "global": "float[N,2,1,1] y|float s = {4}|z = Clip (x) m = GlobalMaxPool (z) y = Div (m, s)",
    "moved": "float[N,A] y|int64[4] p = {0,0,1,0,0,1,0,0}|t = Transpose <perm = [0, 2, 3, 1]> (x) y = Flatten (t)",
    "sliced": "float[N,A,B,C] y|int64[1] a = {1}, int64[1] b = {3}, int64[1] c = {2}|y = Slice (x, a, b, c)",
    "leaky": "float[N,A,B,C] y||a = LeakyRelu <alpha = 0.25> (x) b = HardSigmoid <alpha = 0.5> (a) y = Max (a, b)",
    "linear": "uint8[N,2,4,4] y|float[2] s = {0.5,0.25}, uint8[2] z = {3,128}|y = QuantizeLinear <axis = 1> (x, s, z)",
    "reduced": "float[N,2] y|int64[2] a = {2,3}|y = ReduceSum <keepdims = 0> (x, a)",
}


def model_of(name: str) -> ir.Model:
    output, weights, body = BODIES[name].split("|")
    weights = weights.replace("int64[4] p = {0,0,1,0,0,1,0,0}", "")
    text = f"{HEAD} g (float[N,2,4,4] x) => ({output}) <{weights}> {{ {body} }}".replace("<>", "")
    return onnx_passes.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model


@pytest.mark.parametrize("name", BODIES)
def test_agrees_where_floats_round_nothing(name: str):
    model = model_of(name)
    x = (np.random.default_rng(3).integers(-64, 65, (3, 2, 4, 4)) / 8).astype(np.float32)
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(nearest(evaluate(model, {"x": x})["y"]), np.asarray(expected, np.float64))


def test_normalization_divides_by_the_root_itself():
    text = f"""{HEAD} g (float[1,1] x) => (float[1,1] y)
        <float[1] g = {{3}}, float[1] b = {{0}}, float[1] m = {{0}}, float[1] v = {{2}}>
        {{ a = BatchNormalization <epsilon = 0.0> (x, g, b, m, v) y = Mul (a, a) }}"""
    model = onnx_passes.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model
    assert evaluate(model, {"x": np.float32([[1]])})["y"].item() == Fraction(9, 2)


@pytest.mark.parametrize(("x", "level"), [(0.0, 0), (1e-30, 1), (-1e-30, 0)])
def test_a_tie_of_a_sigmoid_is_decided(x: float, level: int):
    quant = "qonnx.custom_op.general.Quant"
    text = f"""<ir_version: 10, opset_import: ["": 17, "qonnx.custom_op.general": 2]>
        g (float[1] x) => (float[1] y) <float one = {{1}}, float zero = {{0}}, float bits = {{4}}>
        {{ a = Sigmoid (x) y = {quant} <signed: int = 0, narrow: int = 0, rounding_mode: string = "ROUND">
          (a, one, zero, bits) }}"""
    model = onnx_passes.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model
    assert evaluate(model, {"x": np.float32([x])})["y"].item() == level


def test_says_what_it_does_not_know():
    model = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Sin (x) }}")
    with pytest.raises(UnknownOperatorError, match="Sin is not computed exactly"):
        evaluate(model, {"x": np.zeros(2, np.float32)})
