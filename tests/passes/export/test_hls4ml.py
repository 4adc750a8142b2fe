from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
import onnx_passes.examples
from tests.helpers.small_models import named

EXAMPLES = Path(onnx_passes.examples.__file__).parent
QONNX = ("Quant",)
TAKEN = {"Add", "BatchNormalization", "Conv", "Flatten", "MatMul", "MaxPool", "Mul", "Quant", "Relu", "Reshape"}


def parameters(model: ir.Model) -> list[ir.Value]:
    return list(model.graph.initializers.values())


def is_as_hls4ml_wants(model: ir.Model) -> bool:
    """Tell whether all operators are known there, and every quantizer has parameters of its own."""
    return {node.op_type for node in model.graph} <= TAKEN and all(len(v.uses()) == 1 for v in parameters(model))


def adjacent_scales(model: ir.Model) -> list[tuple[str, str]]:
    """List scales and shifts that follow each other, which hls4ml would give the precision of one of them."""
    linear = ("Add", "BatchNormalization", "Div", "Mul", "Sub")
    pairs = ((node, user) for node in model.graph for user in node.outputs[0].consumers())
    return [(a.op_type, b.op_type) for a, b in pairs if a.op_type in linear and b.op_type in linear]


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_examples_become_fixed_point_layers(name: str) -> None:
    path = EXAMPLES / f"{name}.onnx"
    result = onnx_passes.apply(path, "hls4ml")
    model = result.model
    assert is_as_hls4ml_wants(model)
    assert not adjacent_scales(model)
    images = (np.load(EXAMPLES / "digits_test.npz")["pixels"][:64, None] / 16).astype(np.float32)
    [expected] = onnx_passes.run_model(path, {onnx_passes.load(path).graph.inputs[0].name or "": images}).values()
    [x] = model.graph.inputs
    turned = np.moveaxis(images, 1, -1) if name == "digits_cnn" else images
    [found] = onnx_passes.run_model(model, {x.name or "": np.ascontiguousarray(turned)}).values()
    assert (found.argmax(1) == expected.argmax(1)).mean() >= 0.98
    assert np.median(np.abs(found - expected)) < 1e-4


LAYERS = {
    "zoo/small_fixed_point": {"MatMul": 3, "BatchNormalization": 0},
    "zoo/small_tfc_1w1a": {"MatMul": 4, "BatchNormalization": 1},
    "zoo/small_keywords": {"MatMul": 3, "BatchNormalization": 2},
    # One convolution is the average over all pixels.
    "brevitas/small_separable": {"Conv": 4, "MatMul": 1, "BatchNormalization": 3},
    "zoo/qkeras_jettagging": {"MatMul": 4, "BatchNormalization": 0},
    "zoo/TFC_1W1A": {"MatMul": 4, "BatchNormalization": 1},
    "zoo/kwsmlp_w3a3": {"MatMul": 4, "BatchNormalization": 3},
    "brevitas/dwsep_cnn_w4a4_fashion": {"Conv": 8, "MatMul": 1, "BatchNormalization": 8},
    "brevitas/pow2_pertensor_w4a4": {"Conv": 2, "MatMul": 1, "BatchNormalization": 1},
}


@pytest.mark.parametrize(("path", "layers"), named(LAYERS), indirect=["path"])
def test_networks_have_no_more_layers_than_they_need(path: Path, layers: dict[str, int]) -> None:
    model = onnx_passes.apply(path, "hls4ml").model
    counted = {operator: sum(node.op_type == operator for node in model.graph) for operator in layers}
    assert counted == layers
    assert not adjacent_scales(model)
    assert all(len(value.uses()) == 1 for value in parameters(model))
