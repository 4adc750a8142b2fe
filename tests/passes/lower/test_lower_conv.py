from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons


def conv(operator: str, attributes: str, x: str = "N,4,6,5", w: str = "4,2,3,2", bias: str = ", b") -> str:
    rank = ",".join(["?"] * (x.count(",") + 1))
    return f"""g (float[{x}] x, float[{w}] w, float[4] b) => (float[{rank}] y)
        {{ y = {operator} {f"<{attributes}>" if attributes else ""} (x, w{bias}) }}"""


@pytest.mark.parametrize(
    "attributes",
    [
        "group = 2",
        "group = 2, strides = [2,1], pads = [1,0,2,1]",
        "group = 2, dilations = [2,2], pads = [1,1,1,1]",
        "group = 2, strides = [2,2], auto_pad = 'SAME_UPPER'",
        "group = 2, strides = [2,3], auto_pad = 'SAME_LOWER'",
        "group = 2, strides = [2,2], auto_pad = 'VALID'",
    ],
)
def test_windows_of_all_kinds(attributes: str):
    found = outcome("lower-conv", conv("Conv", attributes.replace("'", '"')))
    assert "Conv" not in found
    assert found.count("MatMul") == 1


@pytest.mark.parametrize(("x", "w"), [("N,2,7", "4,2,3"), ("1,2,5,4", "4,2,2,3"), ("1,2,4,3,5", "4,2,2,2,2")])
def test_any_rank(x: str, w: str):
    strides = ",".join(["2"] * (x.count(",") - 1))
    assert "Conv" not in outcome("lower-conv", conv("Conv", f"strides = [{strides}]", x, w))


def test_a_window_of_one_element_needs_no_gathering():
    assert "Gather" not in outcome("lower-conv", conv("Conv", "", "N,2,3,3", "4,2,1,1", ""))


def test_depthwise():
    assert "Conv" not in outcome("lower-conv", conv("Conv", "group = 4, pads = [1,1,1,1]", w="4,1,3,3"))


@pytest.mark.parametrize(
    "attributes",
    [
        "",
        "group = 2",
        "group = 2, strides = [2,1], pads = [1,0,2,1]",
        "strides = [2,2], output_padding = [1,1], pads = [1,1,1,1]",
        "dilations = [2,2], strides = [3,2], group = 2",
    ],
)
def test_transposed(attributes: str):
    features = 2 if "group" in attributes else 4
    numbers = ",".join(str(i % 5 - 2) for i in range(4 * features * 6))
    text = f"""g (float[N,4,6,5] x) => (float[?,?,?,?] y)
        <float[4,{features},3,2] w = {{{numbers}}}, float[4] b = {{1,2,3,4}}>
        {{ y = ConvTranspose {f"<{attributes}>" if attributes else ""} (x, w, b) }}"""
    assert "ConvTranspose" not in outcome("lower-conv", text)


def test_constant_weights_become_a_matrix_at_once():
    text = """g (float[N,1,4] x) => (float[N,2,3] y) <float[2,1,2] w = {1,2,3,4}, float[2] b = {5,6}>
        { y = Conv (x, w, b) }"""
    (product,) = [node for node in applied("lower-conv", text).graph if node.op_type == "MatMul"]
    found = constant(product.inputs[1])
    assert found is not None
    assert found.tolist() == [[1, 3], [2, 4]]


def test_weights_with_two_users_are_moved_by_nodes():
    text = """g (float[1,1,4] x) => (float[1,2,3] y, float[2,1,2] z) <float[2,1,2] w = {1,2,3,4}>
        { y = Conv (x, w) z = Neg (w) }"""
    model = applied("lower-conv", text)
    found = constant(model.graph.initializers["w"])
    assert found is not None
    assert found.shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (conv("Conv", "group = 2"), 12, "opset 13"),
        (conv("Conv", "group = 2", x="N,4,H,5"), 18, "not known"),
        (conv("Conv", "group = 2", w="4,2,K,2"), 18, "not known"),
        (conv("ConvTranspose", "auto_pad = \"SAME_UPPER\"", w="4,4,3,2"), 18, "depends on auto_pad or output_shape"),
        (conv("ConvTranspose", "output_shape = [8,6]", w="4,4,3,2"), 18, "depends on auto_pad or output_shape"),
    ],
)  # fmt: skip
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("lower-conv", text, opset=opset)
