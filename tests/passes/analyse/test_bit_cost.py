"""Bit operations and memory by bit width, beside what qonnx counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_passes
from onnx_passes import examples
from onnx_passes.analysis.bit_cost import ModelBitCost
from tests.helpers.small_models import named
from tests.passes.streamline.tools import network, quant

WEIGHTS = np.array([[1, 0, -1], [0, 0, 2], [3, 1, 0], [-2, 0, 1]], np.float32)
BODY = f"q = {quant('x', 's')} v = {quant('w', 't', 3)} y = MatMul(q, v)"


def bits_of(model: object) -> ModelBitCost:
    return onnx_passes.apply(model, "bit-cost")["bit-cost"]


def test_zeros_count_nothing_and_bits_multiply():
    found = bits_of(network(BODY, w=WEIGHTS, s=0.5, t=1.0))
    (layer,) = found.layers
    assert (layer.input, layer.weight) == ("SCALEDINT<4>", "INT3")
    assert (layer.macs, layer.nonzero_macs, layer.bops) == (24, 14, 14 * 4 * 3)
    assert (layer.weight_bits, layer.nonzero_weight_bits) == (36, 21)


def test_a_streamlined_network_counts_what_its_values_need():
    model = onnx_passes.apply(network(BODY, w=WEIGHTS, s=0.5, t=1.0), "streamline").model
    assert bits_of(model).bops == 14 * 4 * 3


def test_dynamic_dimensions_stay_in_formulas():
    found = bits_of(network(BODY, "float[N,4] x", "float[N,3] y", w=WEIGHTS, s=0.5, t=1.0))
    assert str(found.bops) == "84*N"
    assert found.to_json(layers=False)["types"][0]["bops"] == "84*N"


def test_floats_count_with_the_bits_of_their_type():
    found = bits_of(network("y = MatMul(x, w)", w=WEIGHTS * np.float32(0.3)))
    assert found.bops == 14 * 32 * 32


def test_inspect_has_them_for_quantized_networks_alone():
    assert onnx_passes.inspect(network("y = MatMul(x, w)", w=WEIGHTS)).bits is None
    found = onnx_passes.inspect(network(BODY, w=WEIGHTS, s=0.5, t=1.0))
    assert found.bits is not None
    assert found.to_json()["bits"]["bops"] == 168


def counted_by_qonnx(path) -> dict[str, float]:
    """Count with the tool of qonnx, for one sample."""
    cost = pytest.importorskip("qonnx.util.inference_cost")
    wrapper = pytest.importorskip("qonnx.core.modelwrapper")
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = dim.dim_value or 1
    del model.graph.value_info[:]
    return cost.inference_cost(wrapper.ModelWrapper(model))["total_cost"]


def one_sample(path) -> ModelBitCost:
    bits = onnx_passes.inspect(path).bits
    assert bits is not None
    return bits


@pytest.mark.filterwarnings("ignore")
def test_the_example_costs_what_qonnx_counts():
    path = examples.path("digits-cnn")
    theirs = counted_by_qonnx(path)
    ours = onnx_passes.inspect(path, dimensions={"N": 1}).bits
    assert ours is not None
    assert (ours.bops, ours.nonzero_weight_bits, ours.output_bits) == (
        theirs["total_bops"],
        theirs["total_mem_w_bits"],
        theirs["total_mem_o_bits"],
    )


FULLY_CONNECTED = (
    *("zoo/small_fixed_point", "brevitas/small_gemm"),
    *("zoo/qkeras_jettagging", "zoo/unsw_nb15-mlp-w2a2", "brevitas/mlp_w2a2_bias_nobn"),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", named(FULLY_CONNECTED), indirect=True)
def test_networks_cost_what_qonnx_counts(path: Path):
    theirs, ours = counted_by_qonnx(path), one_sample(path)
    assert (ours.bops, ours.nonzero_weight_bits) == (theirs["total_bops"], theirs["total_mem_w_bits"])


AVERAGED = {
    "brevitas/small_averaged": ("SCALEDINT<4>", 4, "SCALEDINT<4>", 4),
    "brevitas/resnet8_w4a4_fashion": ("SCALEDINT<8>", 8, "SCALEDINT<8>", 8),
}
"""Networks whose last layer reads an average: the type of what it reads, its bits, and those of its weights."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("path", "last_layer"), named(AVERAGED), indirect=["path"])
def test_what_is_averaged_and_truncated_keeps_its_bits(path: Path, last_layer: tuple[str, int, str, int]):
    """Behind AveragePool and Trunc qonnx counts floats of 32 bits, here integers go in."""
    read, bits, weight, weight_bits = last_layer
    theirs, ours = counted_by_qonnx(path), one_sample(path)
    last = ours.layers[-1]
    assert isinstance(last.nonzero_macs, int)
    assert (last.input, last.weight) == (read, weight)
    assert theirs["total_bops"] - ours.bops == last.nonzero_macs * (32 - bits) * weight_bits
