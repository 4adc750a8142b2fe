from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import onnx_passes
from tests.passes.fuse.tools import outcome, reasons
from tests.passes.tools import assert_equal_results, model_of, operators, run


def pool(operator: str, attributes: str, x: str = "float[N,2,6,5]") -> str:
    rank = ",".join(["?"] * (x.count(",") + 1))
    dtype = x.split("[", maxsplit=1)[0]
    return f"g ({x} x) => ({dtype}[{rank}] y) {{ y = {operator} <{attributes}> (x) }}"


@pytest.mark.parametrize(
    "attributes",
    [
        "kernel_shape = [2,3]",
        "kernel_shape = [2,3], strides = [2,1], pads = [1,0,0,2]",
        "kernel_shape = [3,2], dilations = [2,1], pads = [1,1,2,0]",
        "kernel_shape = [3,3], strides = [2,2], auto_pad = 'SAME_UPPER'",
        "kernel_shape = [2,2], strides = [2,1], auto_pad = 'SAME_LOWER'",
        "kernel_shape = [2,2], strides = [2,2], auto_pad = 'VALID'",
        "kernel_shape = [2,2], strides = [3,3], ceil_mode = 1",
        "kernel_shape = [2,2], strides = [3,2], ceil_mode = 1, auto_pad = 'VALID'",
        "kernel_shape = [3,3], strides = [2,2], ceil_mode = 1, pads = [1,1,1,1]",
    ],
)
@pytest.mark.parametrize(
    ("operator", "more"), [("MaxPool", ""), ("AveragePool", ""), ("AveragePool", ", count_include_pad = 1")]
)
def test_windows_of_all_kinds(operator: str, more: str, attributes: str):
    text = pool(operator, (attributes + more).replace("'", '"'))
    assert operator not in outcome("lower-pooling", text, opset=19)


def test_maxima_are_exact():
    random = np.random.default_rng(0)
    feeds = {"x": random.standard_normal((1, 1, 7)).astype(np.float32)}
    for kernel, stride, dilation, pad in product((1, 2, 3), (1, 2), (1, 2), (0, 1)):
        if pad >= kernel:
            continue
        attributes = f"kernel_shape = [{kernel}], strides = [{stride}], dilations = [{dilation}], pads = [{pad},0]"
        model = model_of(pool("MaxPool", attributes, "float[1,1,7]"))
        expected = run(model, feeds)
        lowered = onnx_passes.apply(model, "lower-pooling", verify=False).model
        assert "ReduceMax" in operators(lowered.graph)
        assert_equal_results(lowered, expected, feeds)


@pytest.mark.parametrize("x", ["float[1,1,9]", "float[1,1,4,5,6]", "int8[1,1,9]", "uint8[1,1,9]", "double[1,1,9]"])
def test_ranks_and_types(x: str):
    kernel = ",".join(["2"] * (x.count(",") - 1))
    pads = ",".join(["1"] * (2 * (x.count(",") - 1)))
    assert "ReduceMax" in outcome("lower-pooling", pool("MaxPool", f"kernel_shape = [{kernel}], pads = [{pads}]", x))


@pytest.mark.parametrize(
    ("operator", "expected"), [("GlobalMaxPool", ["ReduceMax"]), ("GlobalAveragePool", ["ReduceMean"])]
)
def test_global_pooling(operator: str, expected: list[str]):
    text = f"g (float[2,3,4,5] x) => (float[2,3,1,1] y) {{ y = {operator} (x) }}"
    assert outcome("lower-pooling", text) == expected


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (pool("MaxPool", "kernel_shape = [2,2]"), 17, "opset 18"),
        (pool("MaxPool", "kernel_shape = [2,2]", "float[1,1,H,4]"), 18, "not known"),
        (
            pool("MaxPool", "kernel_shape = [2], dilations = [3], pads = [1,1]", "float[1,1,2]"),
            18,
            "only padding",
        ),
        (
            "g (float[1,1,4] x) => (float[1,1,3] y, int64[1,1,3] i) { y, i = MaxPool <kernel_shape = [2]> (x) }",
            18,
            "graph output",
        ),
    ],
)
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("lower-pooling", text, opset=opset)
