from __future__ import annotations

import numpy as np

from onnx_passes.graph.constants import is_constant
from onnx_passes.passes.cleanup.remove_initializers_from_inputs import RemoveInitializersFromInputs
from tests.passes.tools import apply, assert_equal_results, check, model_of

TEXT = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }"


def test_initializers_become_constants():
    model = model_of(TEXT)
    weight = model.graph.initializers["w"]
    assert not is_constant(weight)
    assert apply(RemoveInitializersFromInputs(), model)
    assert [v.name for v in model.graph.inputs] == ["x"]
    assert list(model.graph.initializers) == ["w"]
    assert is_constant(weight)
    check(model)
    assert_equal_results(model, [np.array([3, 8], np.float32)], {"x": np.array([3, 4], np.float32)})


def test_other_inputs_stay_in_order():
    model = model_of(
        "g (float[2] a, float[2] w, float[2] b) => (float[2] y) <float[2] w = {1, 2}> { y = Sum (a, w, b) }"
    )
    assert apply(RemoveInitializersFromInputs(), model)
    assert [v.name for v in model.graph.inputs] == ["a", "b"]


def test_an_old_model_gets_the_ir_version_that_allows_it():
    model = model_of(TEXT, ir_version=3, opset=8)
    assert apply(RemoveInitializersFromInputs(), model)
    assert model.ir_version == 4
    check(model)


def test_nothing_to_do():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }", ir_version=8)
    assert not apply(RemoveInitializersFromInputs(), model)
    assert model.ir_version == 8
