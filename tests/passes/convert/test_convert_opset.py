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
X23 = {"x": np.array([[-1.5, 2.0, 0.5], [3, 2, 1]], np.float32)}
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


@pytest.mark.parametrize(("version", "found"), [(17, 18), (20, 20)])
def test_a_later_version_may_stay(version: int, found: int):
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }", opset=18)
    apply(ConvertOpset(version=version, only_raise=True), model)
    assert model.opset_imports[""] == found


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


def test_types_and_ranks_that_are_not_known_are_found_out():
    model = model_of("g (float[2, N] x) => (float[N, 2] y) { t = Transpose (x) y = Softmax <axis = 0> (t) }", opset=21)
    value(model, "t").type = None
    assert apply(ConvertOpset(version=9), model)
    assert [node.op_type for node in model.graph] == ["Transpose", "Transpose", "Softmax", "Transpose"]


BOUNDED = {
    "clip": "y = Clip <min = 0.0, max = 1.5> (a)",
    "pad": "y = Pad <pads = [1, 1], value = 0.5> (a)",
}


@pytest.mark.parametrize("version", [11, 14, 18])
@pytest.mark.parametrize(
    ("operator", "dtype", "element"),
    [("clip", "float16", np.float16), ("pad", "float16", np.float16), ("pad", "double", np.float64)],
)
def test_bounds_get_the_type_of_data_that_is_not_declared(version: int, operator: str, dtype: str, element: type):
    text = f"g ({dtype}[3] x) => ({dtype}[N] y) {{ a = Neg (x) {BOUNDED[operator]} }}"
    model = model_of(text, opset=10, ir_version=8)
    feeds = {"x": np.array([-2, -1, 3], element)}
    expected = run(model, feeds)
    assert apply(ConvertOpset(version=version), model)
    check(model)
    assert_equal_results(model, expected, feeds)


def test_types_inside_functions_are_known_where_they_are_called():
    text = """g (int64[2] x, int64[2] s) => (int64[2] y) { y = local.f (x, s) }
        <domain: "local", opset_import: ["" : 16]> f (a, b) => (c) { c = PRelu (a, b) }"""
    model = model_of(text, opset=16, domains='"local" : 1')
    before = full_hash(model)
    with pytest.raises(ModelError, match=r"opset 8 does not allow 'X' to be tensor\(int64\)"):
        ConvertOpset(version=8)(model)
    assert full_hash(model) == before
    floats = model_of(text.replace("int64", "float"), opset=16, domains='"local" : 1')
    assert apply(ConvertOpset(version=8), floats)


def test_a_pass_that_writes_an_operator_in_older_ones_is_named():
    text = "g (float[2, 3] x) => (float[2, 3] y) <float[3] s = {1, 2, 3}> { [n] y = LayerNormalization (x, s) }"
    with pytest.raises(ModelError, match="there is no LayerNormalization below opset 17; lower-layernorm first"):
        ConvertOpset(version=13)(model_of(text, opset=17))
    lowered = model_of(text, opset=17)
    expected = run(lowered, X23)
    for name in ("lower-layernorm", "convert-opset13"):
        (pass_,) = collect(name)
        assert apply(pass_, lowered)
    check(lowered)
    assert_equal_results(lowered, expected, X23)


def test_kernels_that_round_otherwise_are_no_error():
    pool = "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)"
    model = model_of(f"g (float[1, 2, 9, 9] x) => (float[1, 2, 9, 9] y) {{ {pool} }}", opset=21)
    assert ConvertOpset(version=17)(model).modified
