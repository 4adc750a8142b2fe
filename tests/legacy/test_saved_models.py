"""Models as version 0.4 saves them: with functions, whose bodies refer to attributes of the call."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from onnx_passes import apply, load, run_model

OPERATORS = "onnx_passes.ops"
SAVED = """
<ir_version: 10, opset_import: ["": 19, "onnx_passes.ops": 1]>
g (float[2, 3] x) => (float[3, 2] y)
{
    s = onnx_passes.ops.Swish <beta: float = 2.0> (x)
    y = onnx_passes.ops.LayoutConverter <assumes: strings = ["N", "C"], perm: ints = [1, 0]> (s)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
Swish <beta> (x) => (y) {
    b = Constant <value_float: float = @beta> ()  m = Mul (x, b)  g = Sigmoid (m)  y = Mul (x, g)
}
<domain: "onnx_passes.ops", opset_import: ["": 19]>
LayoutConverter <assumes, perm> (x) => (y) { y = Transpose <perm: ints = @perm> (x) }
"""


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.onnx"
    onnx.save(onnx.parser.parse_model(SAVED), path)
    return path


def expected(x: np.ndarray) -> np.ndarray:
    return (x / (1 + np.exp(-2 * x))).T


def test_they_run(saved):
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run_model(saved, {"x": x})["y"], expected(x), rtol=1e-5)


@pytest.mark.parametrize("pipeline", ["cleanup", "inline-functions", "simplify", "streamline"])
def test_passes_on_them_are_verified(saved, pipeline):
    result = apply(saved, pipeline)
    assert all("unverified" not in str(step.evidence) for step in result.steps if step.modified)
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(run_model(result.model, {"x": x})["y"], expected(x), rtol=1e-5)


def test_their_own_functions_count_and_not_operators_of_that_name_here(saved):
    """The domain is not ours: what the file says an operator does is what it does."""
    model = load(saved)
    assert {function.domain for function in model.functions.values()} == {OPERATORS}
    assert not [node for node in apply(saved, "inline-functions").model.graph if node.domain]
