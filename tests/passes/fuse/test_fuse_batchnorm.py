from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons

PARAMETERS = "float[2] s = {2,-1}, float[2] b = {1,0}, float[2] m = {0.5,1}, float[2] v = {4,0.25}"
WEIGHTS = "float[2,1,2,2] w = {1,2,3,4,5,6,7,8}"


def conv(inner: str, constants: str = f"{WEIGHTS}, {PARAMETERS}", outputs: str = "float[1,2,3,3] z") -> str:
    return f"g (float[1,1,4,4] x) => ({outputs}) <{constants}> {{ {inner} }}"


def test_changes_weights_and_adds_a_bias():
    model = applied("fuse-batchnorm", conv("y = Conv (x, w) z = BatchNormalization <epsilon = 0.0> (y, s, b, m, v)"))
    (node,) = model.graph
    weights, bias = constant(node.inputs[1]), constant(node.inputs[2])
    assert weights is not None
    assert bias is not None
    assert weights.ravel().tolist() == [1, 2, 3, 4, -10, -12, -14, -16]
    assert bias.tolist() == [0.5, 2.0]


def test_weights_are_rounded_once():
    parameters = "float[2] s = {0.1,0.3}, float[2] b = {0,0}, float[2] m = {0,0}, float[2] v = {0.7,0.9}"
    model = applied(
        "fuse-batchnorm",
        conv("y = Conv (x, w) z = BatchNormalization (y, s, b, m, v)", f"{WEIGHTS}, {parameters}"),
    )
    (node,) = model.graph
    scale, variance = np.float32([0.1, 0.3]).astype(float), np.float32([0.7, 0.9]).astype(float)
    factors = scale / np.sqrt(variance + float(np.float32(1e-5)))
    expected = np.arange(1.0, 9.0).reshape(2, 4) * factors[:, None]
    found = constant(node.inputs[1])
    assert found is not None
    np.testing.assert_array_max_ulp(found.reshape(2, 4), expected.astype(np.float32), maxulp=0)


@pytest.mark.parametrize(
    ("layer", "constants", "shape"),
    [
        ("ConvTranspose <group = 2> (x, w)", "float[2,1,2,2] w = {1,2,3,4,5,6,7,8}", "1,2,4,4"),
        ("ConvTranspose (x, w)", "float[2,2,1,1] w = {1,2,3,4}", "1,2,4,4"),
        ("Conv <group = 2> (x, w, c)", "float[2,1,1,1] w = {1,2}, float[2] c = {3,4}", "1,2,4,4"),
        ("Gemm <beta = 0.5, alpha = 2.0> (x, w, c)", "float[3,2] w = {1,2,3,4,5,6}, float[1,2] c = {3,4}", "4,3"),
        ("Gemm <transB = 1> (x, w)", "float[2,3] w = {1,2,3,4,5,6}", "4,3"),
    ],
)
def test_after_every_kind_of_layer(layer: str, constants: str, shape: str):
    rank = "?,?" + ",?" * (shape.count(",") - 1)
    text = f"""g (float[{shape}] x) => (float[{rank}] z) <{constants}, {PARAMETERS}>
        {{ y = {layer} z = BatchNormalization (y, s, b, m, v) }}"""
    assert outcome("fuse-batchnorm", text) == [layer.split(maxsplit=1)[0]]


def test_a_product_of_matrices_becomes_a_gemm():
    text = f"""g (float[N,3] x) => (float[N,2] z) <float[3,2] w = {{1,2,3,4,5,6}}, {PARAMETERS}>
        {{ y = MatMul (x, w) z = BatchNormalization (y, s, b, m, v) }}"""
    assert outcome("fuse-batchnorm", text) == ["Gemm"]


def test_parameters_of_another_type_than_the_weights():
    text = f"""g (float16[1,1,4,4] x) => (float16[1,2,3,3] z)
        <float16[2,1,2,2] w = {{15360,15360,15360,15360,15360,15360,15360,15360}}, {PARAMETERS}>
        {{ y = Conv (x, w) z = BatchNormalization <epsilon = 0.0> (y, s, b, m, v) }}"""
    (node,) = applied("fuse-batchnorm", text).graph
    assert [str(value.dtype) for value in node.inputs if value is not None] == ["FLOAT16"] * 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            conv("y = Conv (x, w) z = BatchNormalization <training_mode = 1> (y, s, b, m, v)"),
            "training mode",
        ),
        (
            conv(
                "y = Conv (x, w) z = BatchNormalization (y, s, b, m, v)",
                f"{WEIGHTS}, {PARAMETERS}".replace("4,0.25", "-4,0.25"),
            ),
            "variance is not positive",
        ),
        (
            conv(
                "y = Conv (x, w) z = BatchNormalization (y, s, b, m, v)",
                f"{WEIGHTS}, {PARAMETERS}",
                "float[1,2,3,3] z, float[1,2,3,3] y",
            ),
            "graph output",
        ),
        (
            conv(
                "y = Conv (x, w) z = BatchNormalization (y, s, b, m, v)",
                f"{WEIGHTS}, {PARAMETERS}".replace("{1,2,3,4,5,6,7,8}", "{1,2,3,4,5,6,7,inf}"),
            ),
            "weights are not constant and finite",
        ),
        (
            f"""g (float[1,1,4,4] x, {WEIGHTS.split(" = ")[0]}) => (float[1,2,3,3] z) <{WEIGHTS}, {PARAMETERS}>
            {{ y = Conv (x, w) z = BatchNormalization (y, s, b, m, v) }}""",
            "weights are not constant",
        ),
        (
            f"""g (float[2,5,3] x) => (float[2,5,2] z) <float[3,2] w = {{1,2,3,4,5,6}},
            {
                PARAMETERS.replace("[2]", "[5]")
                .replace("{2,-1}", "{1,1,1,1,1}")
                .replace("{1,0}", "{1,1,1,1,1}")
                .replace("{0.5,1}", "{1,1,1,1,1}")
                .replace("{4,0.25}", "{1,1,1,1,1}")
            }>
            {{ y = MatMul (x, w) z = BatchNormalization (y, s, b, m, v) }}""",
            "not of matrices",
        ),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-batchnorm", text)


@pytest.mark.parametrize(("size", "left"), [(2, 2), (40, 3)])
def test_copies_shared_weights_only_if_they_are_small(size: int, left: int):
    kernel = ",".join(["1"] * (2 * size * size))
    text = f"""g (float[1,1,{size},{size}] x) => (float[?,?,?,?] z, float[?,?,?,?] q)
        <float[2,1,{size},{size}] w = {{{kernel}}}, {PARAMETERS}>
        {{ y = Conv (x, w) z = BatchNormalization (y, s, b, m, v) q = Conv (x, w) }}"""
    if left == 3:
        assert "used elsewhere" in reasons("fuse-batchnorm", text)
    else:
        assert outcome("fuse-batchnorm", text) == ["Conv", "Conv"]


def test_inside_a_branch_with_weights_from_outside():
    text = f"""g (bool c, float[1,1,4,4] x) => (float[1,2,3,3] z) <{WEIGHTS}, {PARAMETERS}> {{
        z = If (c) <
            then_branch = t () => (float[1,2,3,3] p) {{ y = Conv (x, w) p = BatchNormalization (y, s, b, m, v) }},
            else_branch = e () => (float[1,2,3,3] q) {{ q = Conv (x, w) }}> }}"""
    model = applied("fuse-batchnorm", text)
    assert sorted(node.op_type for node in model.graph.all_nodes()) == ["Conv", "Conv", "If"]
