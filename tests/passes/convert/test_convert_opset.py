from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.core.build import collect
from onnx_passes.core.errors import ModelError
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from tests.passes.tools import apply, assert_equal_results, check, model_of, run, value

SQUEEZE = "g (float[1, 2] x) => (float[2] y) { t = Squeeze <axes = [0]> (x) y = Relu (t) }"
X = {"x": np.array([[-1.5, 2.0]], np.float32)}


def test_converts_what_changed():
    model = model_of(SQUEEZE, opset=11, ir_version=7)
    annotations.set(value(model, "t"), {"finn_datatype": "INT4"})
    expected = run(model, X)
    assert apply(ConvertOpset(version=18), model)
    assert model.opset_imports[""] == 18
    assert "axes" not in value(model, "t").producer().attributes
    assert annotations.get(value(model, "t")) == {"finn_datatype": "INT4"}
    check(model)
    assert_equal_results(model, expected, X)


def test_the_version_it_has_is_nothing_to_do():
    assert not apply(ConvertOpset(version=18), model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))


@pytest.mark.parametrize("version", [7, 18, 25])
def test_there_is_a_name_for_every_version(version: int):
    (pass_,) = collect(f"convert-opset{version}")
    assert isinstance(pass_, ConvertOpset)
    assert pass_.version == version


def test_the_option_stands_in_the_text():
    assert str(ConvertOpset(version=19)) == "convert-opset{version=19}"


@pytest.mark.parametrize("version", [3, 99])
def test_refuses_versions_that_do_not_exist_and_leaves_the_model_alone(version: int):
    model = model_of(SQUEEZE, opset=11, ir_version=7)
    before = full_hash(model)
    with pytest.raises(ModelError, match=str(version)):
        ConvertOpset(version=version)(model)
    assert full_hash(model) == before
