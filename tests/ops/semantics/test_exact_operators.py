"""Exact results of single nodes over attributes drawn at random, beside ONNX Runtime where floats round nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.numbers.arithmetic import UnknownOperatorError
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.semantics.exact import evaluate
from tests.helpers.random_nodes import NODES, Drawn, some
from tests.helpers.thorough import THOROUGH

COUNT = 40 if THOROUGH else 12
KNOWN = (
    *("Abs", "Add", "AveragePool", "BatchNormalization", "Ceil", "Clip", "Concat", "Conv", "DequantizeLinear", "Div"),
    *("Exp", "Expand", "Flatten", "Floor", "Gather", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid"),
    *("Identity", "LeakyRelu", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "Pad", "QuantizeLinear", "ReduceMax"),
    *("ReduceMean", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Round", "Sigmoid", "Slice", "Split", "Squeeze"),
    *("Sub", "Tanh", "Transpose", "Unsqueeze", "Sign", "Sqrt", "Sum", "Mean", "PRelu"),
)


def sized(each: Drawn) -> ir.Model:
    return onnx_passes.apply(ir.from_proto(each.proto), "shape-inference", verify=False).model


@pytest.mark.parametrize("name", NODES)
def test_exact_results_are_those_of_onnxruntime(name: str):
    known = 0
    for each in some(name, COUNT):
        try:
            found = evaluate(sized(each), each.feeds)
        except (UnknownOperatorError, ArithmeticError):
            continue
        known += 1
        for output, expected in zip(each.proto.graph.output, each.results, strict=True):
            array = found[output.name]
            assert array.shape == expected.shape, each
            if expected.dtype.kind in "iub":
                assert np.array_equal(nearest(array), expected.astype(np.float64)), each
            else:
                near = 2e-3 if expected.dtype == np.float16 else 2e-6
                np.testing.assert_allclose(nearest(array), expected, rtol=near, atol=near, err_msg=str(each))
    assert known >= COUNT / 3 or name not in KNOWN, f"{known} of {COUNT} are known"


@pytest.mark.parametrize("name", ["Add", "Sub", "Conv", "MatMul", "Gemm", "ReduceSum", "Sum"])
def test_nothing_is_rounded(name: str):
    """Numbers whose sums and products no float holds: a large one and a small one that would be lost."""
    rounded = 0
    for each in some(name, 12):
        if any(array.dtype != np.float32 for array in each.feeds.values()):
            continue
        rng = np.random.default_rng(0)
        feeds = {
            key: (rng.integers(1, 2**20, array.shape) * 2.0 ** rng.choice([-60, 0, 60], array.shape)).astype(np.float32)
            for key, array in each.feeds.items()
        }
        try:
            found = evaluate(sized(each), feeds)["y"]
        except UnknownOperatorError:
            continue
        assert all(isinstance(number, Fraction | int) for number in found.flat)
        rounded += sum(Fraction(float(number)) != number for number in found.flat)
    assert rounded
