"""Single elements in rational arithmetic, beside ONNX Runtime over attributes drawn at random."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.verify.ties.exact import Exact, UnknownError
from tests.helpers.random_nodes import NODES, some
from tests.helpers.thorough import THOROUGH

COUNT = 30 if THOROUGH else 12
KNOWN = (
    *("Abs", "Add", "AveragePool", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Identity", "MatMul", "Max"),
    *("MaxPool", "Min", "Mul", "Neg", "Relu", "Reshape", "Squeeze", "Sub", "Transpose", "Unsqueeze"),
)


@pytest.mark.parametrize("name", NODES)
def test_elements_are_those_of_onnxruntime(name: str):
    known = 0
    for seed, each in enumerate(some(name, COUNT)):
        model = onnx_passes.apply(ir.from_proto(each.proto), "shape-inference", verify=False).model
        exact, expected = Exact(each.feeds), each.results[0]
        rng = np.random.default_rng(seed)
        places = rng.permutation(expected.size)[:8].tolist()
        for place in places:
            index = tuple(int(i) for i in np.unravel_index(place, expected.shape))
            try:
                found = exact.element(model.graph.outputs[0], index)
            except UnknownError:
                break
            near = 2e-3 if expected.dtype == np.float16 else 2e-6
            np.testing.assert_allclose(float(found), float(expected[index]), rtol=near, atol=near, err_msg=str(each))
        else:
            known += 1
    assert known >= COUNT / 3 or name not in KNOWN, f"{known} of {COUNT} are known"


def test_elements_are_not_rounded_and_taken_from_what_is_known():
    head = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) <float c = {0.1}>'
    text = f"{head} {{ a = Mul (x, c) y = Add (a, x) }}"
    model = onnx_passes.apply(ir.from_onnx_text(text), "shape-inference", verify=False).model
    x = np.array([0.3, 1e8], np.float32)
    output = model.graph.outputs[0]
    for place in (0, 1):
        number = Fraction(float(x[place]))
        assert Exact({"x": x}).element(output, (place,)) == number * Fraction(float(np.float32(0.1))) + number
        given = {"x": x, "a": np.array([5, 7], np.float32)}
        assert Exact(given).element(output, (place,)) == Fraction(5 + 2 * place) + number


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_not_known(number: float):
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    model = ir.from_onnx_text(text)
    exact = Exact({"x": np.array([1, number], np.float32)})
    assert exact.element(model.graph.outputs[0], (0,)) == -1
    with pytest.raises(UnknownError):
        exact.element(model.graph.outputs[0], (1,))
