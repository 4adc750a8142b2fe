"""Elements in rational arithmetic: what doubles find, without their error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_ir.passes.common import ShapeInferencePass

from onnx_passes.verify.ties.exact import Exact, UnknownError

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
NODES = {
    "linear": "a = MatMul (x, w) b = Add (a, c) y = Div (b, s)",
    "batches": "u = Unsqueeze (x, one) a = MatMul (u, w) f = Flatten (a) y = Relu (f)",
    "moved": "t = Transpose <perm = [1, 0]> (x) r = Reshape (t, shape) n = Neg (r) y = Max (n, s)",
    "picture": (
        "p = Reshape (x, image) v = Conv <pads = [1, 1, 0, 0], strides = [1, 2]> (p, k) "
        "y = AveragePool <kernel_shape = [2, 1], pads = [1, 0, 0, 0]> (v)"
    ),
    "norm": "p = Reshape (x, image) n = BatchNormalization (p, g, g, g, h) y = GlobalAveragePool (n)",
}
WEIGHTS = (
    "float[4,3] w = {1, 2, 3, 0.1, 0.2, 0.3, -1, 0.5, 7, 1, 1, 1}, float[3] c = {0.1, 0.2, 0.3}, float s = {0.3}, "
    "int64[1] one = {1}, int64[2] shape = {2, 12}, int64[4] image = {1, 2, 3, 4}, float[2] g = {0.7, -1.3}, "
    "float[2] h = {0.11, 2.5}, "
    "float[3,2,2,2] k = {1, 2, 3, 4, 5, 6, 7, 8, 0.1, 0.2, 0.3, 0.4, 1, 1, 1, 1, -1, 0, 2, 0, 1, 0.5, 0.25, 3}"
)


def model_of(name: str) -> ir.Model:
    model = ir.from_onnx_text(f"{HEAD} g (float[6,4] x) => (float y) <{WEIGHTS}> {{ {NODES[name]} }}")
    model.graph.outputs[0].shape = None
    ShapeInferencePass()(model)
    return model


@pytest.mark.parametrize("name", NODES)
def test_elements_are_those_of_doubles(name: str):
    model = model_of(name)
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    proto = ir.to_proto(model)
    for tensor in proto.graph.initializer:
        if tensor.data_type == 1:
            array = np.array(ir.serde.deserialize_tensor(tensor).numpy(), np.float64)
            tensor.CopyFrom(ir.serde.serialize_tensor(ir.Tensor(array, name=tensor.name)))
    expected = ReferenceEvaluator(proto).run(None, {"x": x.astype(np.float64)})[0]
    exact = Exact({"x": x})
    found = np.empty(expected.shape)
    for index in np.ndindex(expected.shape):
        found[index] = float(exact.element(model.graph.outputs[0], index))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if name == "norm" else 1e-12, atol=1e-13)


def test_a_tie_that_floats_miss_is_one():
    text = (
        f"{HEAD} g (float[2] x) => (float[2] y) <float s = {{0.15}}> {{ a = Mul (x, s) b = Add (a, a) y = Div (b, s) }}"
    )
    model = ir.from_onnx_text(text)
    ShapeInferencePass()(model)
    exact = Exact({"x": np.array([0.25, 1.25], np.float32)})
    assert exact.element(model.graph.outputs[0], (0,)) == Fraction(1, 2)


def test_what_it_does_not_know_it_does_not_compute():
    model = ir.from_onnx_text(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Sin (x) }}")
    with pytest.raises(UnknownError):
        Exact({"x": np.zeros(2, np.float32)}).element(model.graph.outputs[0], (0,))
