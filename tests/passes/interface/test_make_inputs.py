"""``make-inputs`` and ``make-initializers`` lead from one to the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.passes.interface.make_initializers import MakeInitializers
from onnx_passes.testing import assert_same_graph
from tests.passes.tools import check, model_of, run

HELD = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
TAKEN = "g (float[N, 3] x, float[3] w) => (float[N, 3] y) { y = Mul(x, w) }"
DEFAULT = "g (float[N, 3] x, float[3] w) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }"
X = np.array([[4, 5, 6]], np.float32)


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (HELD, "make-inputs{initializers=[w]}", TAKEN),
        (HELD, "make-inputs{initializers=[w], default=true}", DEFAULT),
        (DEFAULT, "make-inputs{initializers=[w]}", TAKEN),
        (TAKEN, "make-initializers{w=[1, 2, 3]}", HELD),
        (DEFAULT, "make-initializers{w=[1, 2, 3]}", HELD),
    ],
)
def test_one_becomes_the_other_and_is_verified(before: str, text: str, after: str):
    result = run_pipeline(model_of(before), text)
    check(result.model)
    assert_same_graph(result.model, model_of(after))
    assert next(step for step in result.record.steps if step.modified).evidence.level == "bits:sampled"


def test_constants_become_inputs():
    model = model_of("g (float[3] x) => (float[3] y) { c = Constant<value_floats=[1.0, 2.0, 3.0]>() y = Mul(x, c) }")
    result = run_pipeline(model, "make-inputs{initializers=[c]}")
    np.testing.assert_array_equal(run(result.model, {"x": X[0], "c": X[0]})[0], X[0] * X[0])


def test_what_is_so_already_is_left_alone():
    assert not run_pipeline(model_of(TAKEN), "make-inputs{initializers=[w]}").modified
    assert not run_pipeline(model_of(HELD), "make-initializers{w=[1, 2, 3]}").modified


@pytest.mark.parametrize("kind", ["npy", "npz", "only.npz"])
def test_values_come_from_files(tmp_path: Path, kind: str):
    path, array = tmp_path / f"w.{kind}", np.array([1, 2, 3], np.float32)
    if kind == "npy":
        np.save(path, array)
    else:
        np.savez(path, **({"w": array, "other": X} if kind == "npz" else {"any": array}))
    result = run_pipeline(model_of(TAKEN), f"make-initializers{{w='{path}'}}")
    np.testing.assert_array_equal(run(result.model, {"x": X})[0], X * array)
    assert result.record.level == "bits:sampled"


def test_a_number_fills_an_input():
    result = run_pipeline(model_of(TAKEN), "make-initializers{w=0.1}, simplify")
    np.testing.assert_allclose(run(result.model, {"x": X})[0], X * np.float32(0.1))


def test_arrays_are_taken_from_python_and_print_as_pipeline_text():
    pass_ = MakeInitializers(values={"w": np.array([1, 2, 3], np.float32)})
    assert str(pass_) == "make-initializers{w=[1.0, 2.0, 3.0]}"
    assert_same_graph(run_pipeline(model_of(TAKEN), [pass_]).model, model_of(HELD))


def test_truth_values_and_integers_are_written_as_such():
    model = model_of(
        "g (float[2] x, bool c, int64[1] n) => (float[?] y) { a = Tile(x, n) b = Neg(a) y = Where(c, a, b) }"
    )
    result = run_pipeline(model, "make-initializers{c=true, n=[2]}")
    np.testing.assert_array_equal(run(result.model, {"x": X[0, :2]})[0], [4, 5, 4, 5])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("make-inputs", "no initializers are named"),
        ("make-inputs{initializers=[v]}", "no initializer 'v'"),
        ("make-inputs{initializers=['*']}", r"'\*' is a pattern"),
    ],
)
def test_make_inputs_refuses(text: str, reason: str):
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(model_of(HELD), text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("make-initializers", "nothing is fixed"),
        ("make-initializers{v=1}", "no input 'v'"),
        ("make-initializers{w=[1, 2]}", r"has the shape \[3\], the given value \[2\]"),
        ("make-initializers{x=1}", "a size that is not known"),
        ("make-initializers{w=abc}", "'abc' is not a value for input 'w'"),
        ("make-initializers{w=[1, [2]]}", "is not a value for input 'w'"),
        ("make-initializers{w=missing.npy}", "missing.npy: there is no such file"),
        ("make-initializers{n=1.5}", "int64, which cannot hold the given value"),
    ],
)
def test_make_initializers_refuses(text: str, reason: str):
    model = model_of("g (float[N, 3] x, float[3] w, int64 n) => (float[N, 3] y, int64 m) { y = Mul(x, w) m = Neg(n) }")
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(model, text)


def test_data_that_hold_something_else_are_refused():
    given = {"x": X, "w": np.zeros(3, np.float32)}
    with pytest.raises(OnnxPassesError, match="no input 'w'"):
        run_pipeline(model_of(TAKEN), "make-initializers{w=[1, 2, 3]}", inputs=[given])
