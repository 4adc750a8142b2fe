from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.constants import constant
from onnx_passes.passes.quant.stored_scales import multiples
from tests.passes.quant.tools import applied, computed, model_of, quantizers, reasons
from tests.passes.tools import operators

QUANT = "q = qonnx.custom_op.general.Quant (x, s, z, b)"
PARAMETERS = "float s = {0.5}, float z = {0}, float b = {4}"


def network(weights: np.ndarray, body: str = f"{QUANT} y = MatMul (q, w)", x: str = "float[2,3] x") -> ir.Model:
    model = model_of(f"g ({x}) => (float y) <{PARAMETERS}, float w = {{1}}> {{ {body} }}")
    held = model.graph.initializers["w"]
    held.const_value, held.shape = ir.Tensor(weights.astype(np.float32)), ir.Shape(weights.shape)
    model.graph.outputs[0].shape = None
    return model


def integers(shape: tuple[int, ...], most: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_one_scale_for_all_weights(seed: int):
    q = integers((3, 40), 7, seed)
    q[0, 0] = 1
    scale = np.float32(np.random.default_rng(seed).uniform(0.001, 3))
    model = applied("recover-weight-scales", network(q * scale))
    assert operators(model.graph) == ["Quant", "Quant", "MatMul"]
    found = quantizers(model)[1]
    assert (found.scale, found.bits, found.signed) == (scale, 4, True)


@pytest.mark.parametrize("seed", range(20))
def test_a_scale_for_each_channel(seed: int):
    q = integers((3, 5), 100, seed)
    q[0] = 1
    scales = np.random.default_rng(seed).uniform(0.001, 3, 5).astype(np.float32)
    model = applied("recover-weight-scales", network(q * scales))
    np.testing.assert_array_equal(np.ravel(quantizers(model)[1].scale), scales)
    x = np.random.default_rng(seed).normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_array_equal(computed(model, x=x)[0], computed(network(q * scales), x=x)[0])


def test_scales_follow_the_channels_of_the_operator():
    q, scales = integers((4, 3, 2, 2), 7), np.array([0.3, 0.7, 0.11, 0.9], np.float32).reshape(-1, 1, 1, 1)
    conv = applied("recover-weight-scales", network(q * scales, f"{QUANT} y = Conv (q, w)", "float[1,3,5,5] x"))
    np.testing.assert_array_equal(quantizers(conv)[1].scale, scales)
    gemm = network((q * scales).reshape(4, 12), f"{QUANT} y = Gemm <transB = 1> (q, w)", "float[2,12] x")
    np.testing.assert_array_equal(quantizers(applied("recover-weight-scales", gemm))[1].scale, scales.reshape(-1, 1))


def test_two_opposite_weights_are_bipolar():
    weights = np.array([[0.3, -0.3], [-0.3, -0.3], [0.3, 0.3]], np.float32)
    model = applied("recover-weight-scales", network(weights))
    assert operators(model.graph) == ["Quant", "BipolarQuant", "MatMul"]


def test_streamline_takes_a_network_with_folded_weights_to_integers():
    q, scales = integers((3, 2), 7), np.array([0.3, 0.7], np.float32)
    result = onnx_passes.apply(network(q * scales), "streamline")
    assert result["check-streamlined"].fraction == 1
    [product] = [node for node in result.model.graph if node.op_type == "MatMul"]
    weights = constant(product.inputs[1])
    assert weights is not None
    np.testing.assert_array_equal(np.abs(weights), np.abs(q))


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (np.array([[0.1, 0.123], [0.7, -1.1], [0.31, 0.2]]), "not multiples"),
        (np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 0.0]]), "integers already"),
        (np.array([[0.1, 25.6], [0.2, 0.1], [0.1, 0.1]]), "not multiples"),
    ],
)
def test_refuses(weights: np.ndarray, reason: str):
    assert reason in reasons("recover-weight-scales", network(weights))


def test_leaves_networks_of_floats_alone():
    model = network(np.array([[0.3, -0.3], [-0.3, -0.3], [0.3, 0.3]]), "y = MatMul (x, w)")
    assert not onnx_passes.apply(model, "recover-weight-scales").steps[-1].modified


def test_a_scale_is_proved_bit_by_bit():
    values = integers((1, 30), 7) * np.float32(0.3)
    values[0, 3] = np.nextafter(values[0, 3], np.float32(np.inf))
    assert multiples(values, None) is None


def test_channels_of_zeros_have_any_scale():
    values = np.array([[0.3, 0.0], [0.6, 0.0]], np.float32)
    found = multiples(values, 1)
    assert found is not None
    np.testing.assert_array_equal(found.integers, [[1, 0], [2, 0]])
