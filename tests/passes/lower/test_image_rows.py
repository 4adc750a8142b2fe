"""Convolutions and pooling of images, channels last, with Im2Col of QONNX."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import sparsity_of
from tests.helpers.qonnx_executor import execute
from tests.passes.tools import operators

CONV, POOLING = "lower-conv{im2col=true}", "lower-pooling{im2col=true}"


def conv(attributes: str, weights: tuple[int, ...], x: str = "1,4,7,6", bias: bool = True) -> ir.Model:
    features = weights[0]
    inputs = "x, w, b" if bias else "x, w"
    model = ir.from_onnx_text(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{x}] x) => (float[?,?,?,?] y) <float w = {{0}}, float b = {{0}}> {{
            y = Conv {f"<{attributes}>" if attributes else ""} ({inputs})
        }}""")
    numbers = np.random.default_rng(0)
    for name, shape in (("w", weights), ("b", (features,))):
        held = model.graph.initializers[name]
        held.const_value = ir.Tensor(numbers.integers(-7, 8, shape).astype(np.float32))
        held.shape = ir.Shape(shape)
    return model


def pool(operator: str, attributes: str, opset: int = 17) -> ir.Model:
    given = f"<{attributes}>" if attributes else ""
    return ir.from_onnx_text(f"""<ir_version: 8, opset_import: ["" : {opset}]>
        g (float[1,4,7,6] x) => (float[?,?,?,?] y) {{ y = {operator} {given} (x) }}""")


def lowered(model: ir.Model, text: str) -> ir.Model:
    """Apply a pass, verified, and compare with the original in QONNX as well."""
    result = onnx_passes.apply(model, f"{text}, infer-datatypes").model
    x = np.random.default_rng(1).integers(-5, 6, model.graph.inputs[0].shape.numpy()).astype(np.float32)
    expected = onnx_passes.run_model(model, {"x": x})["y"]
    np.testing.assert_allclose(execute(result, {"x": x})["y"], expected, rtol=1e-6)
    return result


def without_transposes(model: ir.Model) -> list[str]:
    names = operators(model.graph)
    assert (names[0], names[-1]) == ("Transpose", "Transpose")
    return names[1:-1]


@pytest.mark.parametrize("strides", ["1,1", "2,1", "3,2"])
@pytest.mark.parametrize("pads", ["0,0,0,0", "1,1,1,1", "1,0,2,1"])
@pytest.mark.parametrize("dilations", ["1,1", "2,1"])
def test_windows_of_all_kinds(strides: str, pads: str, dilations: str):
    model = conv(f"strides = [{strides}], pads = [{pads}], dilations = [{dilations}]", (3, 4, 3, 2))
    assert without_transposes(lowered(model, CONV)) == ["Im2Col", "MatMul", "Add"]


@pytest.mark.parametrize("text", [CONV, POOLING])
def test_any_number_of_images(text: str):
    model = conv("pads = [1,1,1,1]", (3, 4, 3, 3), "N,4,7,6")
    if text == POOLING:
        model = pool("GlobalAveragePool", "")
        model.graph.inputs[0].shape = ir.Shape(["N", 4, 7, 6])
    assert "Im2Col" in operators(onnx_passes.apply(model, text).model.graph)


def test_a_window_of_one_element_is_a_product():
    assert without_transposes(lowered(conv("", (3, 4, 1, 1), bias=False), CONV)) == ["MatMul"]


@pytest.mark.parametrize(("group", "weights"), [(4, (4, 1, 3, 3)), (4, (8, 1, 3, 3)), (2, (6, 2, 3, 3))])
def test_groups_are_zeros_in_the_matrix(group: int, weights: tuple[int, ...]):
    result = lowered(conv(f"group = {group}, pads = [1,1,1,1]", weights), CONV)
    assert without_transposes(result) == ["Im2Col", "MatMul", "Add"]
    [product] = [node for node in result.graph if node.op_type == "MatMul"]
    [rows] = [node for node in result.graph if node.op_type == "Im2Col"]
    is_depthwise = group == 4
    assert rows.attributes.get_int("depthwise") == is_depthwise
    assert sparsity_of(product.inputs[1]) == ({"dw": {"kernel_shape": [3, 3]}} if is_depthwise else None)


@pytest.mark.parametrize(
    "model",
    [
        conv('auto_pad = "SAME_UPPER"', (3, 4, 3, 3)),
        conv("", (3, 4, 3, 3), "1,4,H,6"),
        conv("pads = [1,0,1,0]", (3, 4, 3, 1), "1,4,1,6"),
    ],
    ids=["padding left open", "unknown size", "one row"],
)
def test_others_are_gathered(model: ir.Model):
    names = operators(onnx_passes.apply(model, CONV).model.graph)
    assert "Im2Col" not in names


def test_maximum():
    attributes = "kernel_shape = [3,2], strides = [2,2], pads = [1,0,1,0]"
    assert without_transposes(lowered(pool("MaxPool", attributes), POOLING)) == ["MaxPoolNHWC"]


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("AveragePool", "kernel_shape = [3,2], strides = [2,2]"),
        ("AveragePool", "kernel_shape = [3,2], pads = [1,1,1,1], count_include_pad = 1"),
        ("GlobalAveragePool", ""),
    ],
)
def test_average(operator: str, attributes: str):
    names = without_transposes(lowered(pool(operator, attributes), POOLING))
    assert names == ["Im2Col", "Reshape", "ReduceSum", "Mul"]


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", "kernel_shape = [3,2], dilations = [2,1]"),
        ("MaxPool", "kernel_shape = [3,2], pads = [1,0,0,0]"),
        ("AveragePool", "kernel_shape = [3,2], pads = [1,1,1,1]"),
        ("AveragePool", "kernel_shape = [3,2], strides = [2,2], ceil_mode = 1"),
    ],
)
def test_what_qonnx_has_no_operator_for_is_gathered(operator: str, attributes: str):
    names = operators(onnx_passes.apply(pool(operator, attributes, 19), POOLING).model.graph)
    assert not {"MaxPoolNHWC", "Im2Col", operator} & set(names)


class TestStreamlining:
    """A depthwise convolution as a matrix, of activations with a scale for each channel."""

    def network(self) -> ir.Model:
        domain = "qonnx.custom_op.general"
        model = ir.from_onnx_text(f"""<ir_version: 8, opset_import: ["" : 17, "{domain}" : 1]>
            g (float[1,4,7,6] x) => (float[?,?,?,?] y)
            <float[1,4,1,1] s = {{0.5, 0.3, 0.7, 0.11}}, float z = {{0}}, float b = {{4}}, float w = {{0}}> {{
                q = {domain}.Quant <signed = 0> (x, s, z, b)
                m = MaxPool <kernel_shape = [2,2]> (q)
                y = Conv <group = 4, pads = [1,1,1,1]> (m, w)
            }}""")
        weights = np.random.default_rng(0).integers(-7, 8, (4, 1, 3, 3)) * np.float32([0.1, 0.2, 0.3, 0.7]).reshape(
            4, 1, 1, 1
        )
        held = model.graph.initializers["w"]
        held.const_value, held.shape = ir.Tensor(weights.astype(np.float32)), ir.Shape(weights.shape)
        return model

    def test_scales_move_past_windows_and_products(self):
        result = onnx_passes.apply(self.network(), f"{CONV}, {POOLING}, absorb-layouts, streamline")
        assert result["check-streamlined"].fraction == 1
        assert operators(result.model.graph).count("Mul") == 1
        [product] = [node for node in result.model.graph if node.op_type == "MatMul"]
        weights = constant(product.inputs[1])
        assert weights is not None
        np.testing.assert_array_equal(weights, np.rint(weights))
        assert sparsity_of(product.inputs[1]) == {"dw": {"kernel_shape": [3, 3]}}
