from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.eliminate.gather_laws import EliminateGatherOfRange
from tests.passes.eliminate.tools import refusals
from tests.passes.tools import apply, assert_equal_results, check, operators, run
from tests.passes.tools import model_of as bare_model_of

PASS = EliminateGatherOfRange()


def model_of(text: str, opset: int = 18) -> ir.Model:
    model = bare_model_of(text, opset=opset)
    apply(ShapeInference(), model)
    return model


def gathered(start: int = 0, step: int = 1, axis: int = 0, end: str = "e = Gather (s, i)", more: str = "") -> str:
    return f"""g (float[4,6] x, float[N] z, int64 n) => (float[P,Q] y, {"int64[R] w" if more else "int64 w"})
        <int64 b = {{{start}}}, int64 o = {{{step}}}, int64 i = {{0}}> {{
        s = Shape (z) {end} r = Range (b, e, o) y = Gather <axis = {axis}> (x, r) {more or "w = Identity (n)"} }}"""


def feeds(size: int, n: int = 0) -> dict[str, np.ndarray]:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    return {"x": x, "z": np.zeros(size, np.float32), "n": np.array(n)}


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("start", [0, 1, 3])
@pytest.mark.parametrize("opset", [13, 20])
def test_a_row_of_indices_is_cut_out(axis: int, start: int, opset: int):
    model = model_of(gathered(start, axis=axis), opset=opset)
    expected = {size: run(model, feeds(size)) for size in (0, 1, 2, 4)}
    assert apply(PASS, model)
    apply(ShapeInference(), model)
    check(model)
    assert "Slice" in operators(model.graph)
    assert "Range" not in operators(model.graph)
    for size, results in expected.items():
        assert_equal_results(model, results, feeds(size))


def test_rows_that_two_read_are_cut_out_for_both():
    model = model_of(
        """g (float[4,6] x, float[N] z) => (float[P,Q] y, float[R,S] w) <int64 b = {0}, int64 o = {1}, int64 i = {0}> {
        s = Shape (z) e = Gather (s, i) r = Range (b, e, o) y = Gather (x, r) w = Gather <axis = 1> (x, r) }"""
    )
    given = {name: array for name, array in feeds(3).items() if name != "n"}
    expected = run(model, given)
    assert apply(PASS, model)
    assert operators(model.graph).count("Slice") == 2
    assert_equal_results(model, expected, given)


REFUSED = {
    "step": (gathered(step=2), "do not count up by one"),
    "start": (gathered(start=-2), "do not count up by one"),
    "end": (gathered(end="e = Identity (n)"), "may be negative"),
    "read": (gathered(more="w = Neg (r)"), "the indices have other consumers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_is_not_a_row(name: str):
    text, reason = REFUSED[name]
    assert any(reason in found for found in refusals(PASS, text))


def test_negative_indices_count_from_the_end_in_gather_only():
    model = model_of(gathered(start=-2, end="e = Identity (n)"))
    assert run(model, feeds(1, 0))[0].tolist() == feeds(1)["x"][-2:].tolist()
    assert not apply(PASS, model)


def test_older_operator_sets_stay():
    model = model_of(gathered(), opset=12)
    assert not apply(PASS, model)
