from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes import apply as run_pipeline
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.errors import OnnxPassesError, PassFailedError, UsageError
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.passes.interface.set_input import SetInput
from onnx_passes.verify.samples.generate import generate
from tests.passes.tools import check, model_of, operators, run

NET = "g (float[1, 3, 4, 4] x) => (float[1, 3, 4, 4] y) { y = Relu(x) }"


def test_a_type_is_annotated_and_known_to_all():
    model = run_pipeline(model_of(NET), "set-input{name=x, type=UINT8}").model
    assert str(datatype_of(model.graph.inputs[0])) == "UINT8"
    known = ranges_of(model)[model.graph.outputs[0]]
    assert (known.low, known.high) == (0, 255)
    assert known.integer_grid is not None


def test_a_range_is_known_to_all_and_samples_keep_to_it():
    model = run_pipeline(model_of(NET), "set-input{low=-0.5, high=2}").model
    known = ranges_of(model)[model.graph.outputs[0]]
    assert (known.low, known.high) == (0, 2)
    for sample in generate(model):
        assert -0.5 <= sample["x"].min() <= sample["x"].max() <= 2


def test_a_range_of_integers_is_one_of_integers():
    model = run_pipeline(model_of(NET), "set-input{type=INT8, low=-3, high=5}").model
    for sample in generate(model):
        assert set(sample["x"].reshape(-1)) <= set(range(-3, 6))


def test_with_a_scale_the_model_takes_integers():
    model, original = model_of(NET), model_of(NET)
    pass_ = SetInput(type="UINT8", scale=(0.5, 0.25, 3.0), bias=(1.0, 0.0, -2.0))
    assert pass_.call(model).modified
    check(model)
    assert operators(model.graph) == ["Mul", "Add", "Relu"]
    q = {"x": np.random.default_rng(0).integers(0, 256, (1, 3, 4, 4)).astype(np.float32)}
    np.testing.assert_array_equal(run(model, q)[0], run(original, pass_.inputs_before(q))[0])
    assert not SetInput(type="UINT8", scale=(0.5, 0.25, 3.0), bias=(1.0, 0.0, -2.0)).call(model).modified


@settings(max_examples=40, deadline=None)
@given(
    scale=st.floats(2.0**-20, 2.0**10, width=32),
    bias=st.floats(-100, 100, width=32),
    kind=st.sampled_from(["UINT8", "INT4", "BIPOLAR", "TERNARY", "INT16"]),
)
def test_data_go_there_and_back(scale, bias, kind):
    model = model_of(NET)
    pass_ = SetInput(type=kind, scale=(scale,), bias=(bias,) if abs(bias) < 1000 * scale else ())
    pass_.call(model)
    for sample in generate(model):
        there = pass_.inputs_before(sample)
        np.testing.assert_array_equal(pass_.inputs_after(there)["x"], sample["x"])


def test_every_step_is_verified_on_scaled_integers():
    result = run_pipeline(model_of(NET), "set-input{type=UINT8, scale=0.00392}, cleanup")
    step = next(step for step in result.record.steps if step.name == "set-input")
    assert step.evidence.level == "bits:sampled"


def test_data_of_the_original_are_taken_as_integers():
    images = (np.arange(48) / 255).astype(np.float32).reshape(1, 3, 4, 4)
    result = run_pipeline(model_of(NET), f"set-input{{type=UINT8, scale={1 / 255}}}", inputs=[{"x": images}])
    assert result.record.steps[0].evidence.samples == 1


def test_data_that_are_no_such_integers_are_an_error():
    noise = np.full((1, 3, 4, 4), 0.37, np.float32)
    with pytest.raises(UsageError, match="which is not a number of UINT8"):
        run_pipeline(model_of(NET), "set-input{type=UINT8}", inputs=[{"x": noise}])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("set-input{name=z, type=UINT8}", "the model has no input 'z'"),
        ("set-input{type=UINT8, scale=[1, 2]}", "has size 3, but 2 numbers"),
        ("set-input{type=UINT8, scale=[1, 2], axis=7}", "no axis 7"),
    ],
)
def test_refuses_what_does_not_fit(text, reason):
    with pytest.raises(PassFailedError, match=reason):
        run_pipeline(model_of(NET), text, verify=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("set-input{name=x}", "there is nothing to set"),
        ("set-input{type=FLOAT32}", "has no range of numbers"),
        ("set-input{low=1}", "a range has two ends"),
        ("set-input{low=1, high=0}", "is empty"),
        ("set-input{low=0, high=1, scale=2}", "needs the type"),
        ("set-input{type=UINT8, scale=0}", "not a usable number"),
    ],
)
def test_refuses_what_says_nothing(text, reason):
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(model_of(NET), text)


def test_an_input_that_is_returned_is_not_scaled():
    model = model_of("g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }")
    with pytest.raises(PassFailedError, match="is also an output"):
        SetInput(type="UINT8", scale=(2.0,)).call(model)
