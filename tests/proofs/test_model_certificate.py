"""Windows in which two models differ, and certificates of what is proved of them."""

from __future__ import annotations

import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.proofs.changed_parts import Comparison
from onnx_passes.proofs.model_certificate import certify, differences
from tests.proofs.models import pair

INTERFACE = "float[2,8] x, float[8,4] w => float[2,4] y, float[2,4] z"


def _models(before: str, after: str):
    first, second = pair(INTERFACE, before, after)
    for model in (first, second):
        for node in model.graph:
            for output in node.outputs:
                output.shape = output.shape or (
                    model.graph.outputs[0].shape if output.name != "xs" else model.graph.inputs[0].shape
                )
                output.dtype = output.dtype or model.graph.inputs[0].dtype
    return first, second


def test_unchanged_parts_leave_small_windows():
    models = _models(
        "a = MatMul(x, w) n = Neg(a) m = Neg(n) e = Relu(m) y = Softmax(e) z = Tanh(a)",
        "a = MatMul(x, w) e = Relu(a) y = Softmax(e) z = Tanh(a)",
    )
    (window,) = certify(*models).windows
    assert window.output == "e"
    assert (window.removed, window.added) == (("Neg", "Neg", "Relu"), ("Relu",))
    assert window.level == "proved-here"


def test_the_same_models_have_no_windows():
    models = _models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "b = MatMul(x, w) z = Neg(b) y = Relu(b)")
    found = certify(*models)
    assert found.windows == ()
    assert found.level == "proved"


def test_windows_grow_behind_values_that_differ():
    models = _models(
        "a = MatMul(x, w) c = Constant <value_float = 4.0> () b = Div(a, c) y = Relu(b) z = Neg(b)",
        "c = Constant <value_float = 0.25> () xs = Mul(x, c) b = MatMul(xs, w) y = Relu(b) z = Neg(b)",
    )
    found = certify(*models)
    assert found.level == "equal-in-reals"
    assert all("MatMul" in window.removed for window in found.windows)


def test_a_refuted_window_has_an_example_that_onnxruntime_confirms():
    models = _models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "a = MatMul(x, w) y = Abs(a) z = Neg(a)")
    found = certify(*models)
    assert found.is_refuted
    (window,) = found.windows
    assert window.is_confirmed
    assert window.to_json()["example"]


def test_a_difference_of_special_values_is_excused_only_if_allowed():
    models = _models(
        "a = MatMul(x, w) y = Relu(a) b = Sub(a, y) z = Neg(b)", "a = MatMul(x, w) y = Relu(a) z = Sub(y, a)"
    )
    assert certify(*models).level == "refuted"
    assert certify(*models, allow={"nsz"}).level == "equal-in-reals"


def test_a_certificate_is_checked_by_proving_it_again():
    models = _models("a = MatMul(x, w) y = Relu(a) n = Neg(a) z = Neg(n)", "z = MatMul(x, w) y = Relu(z)")
    made = certify(*models)
    data = made.to_json()
    assert differences(data, certify(*models)) == []
    data["windows"][0]["level"] = "proved"
    assert differences(data, made)
    other = certify(*_models("a = MatMul(x, w) y = Relu(a) z = Neg(a)", "z = MatMul(x, w) y = Relu(z)"))
    assert differences(made.to_json(), other) == ["the model before is another one"]
    with pytest.raises(UsageError):
        differences({}, made)


def test_outputs_without_a_partner_are_an_error():
    first, second = _models("y = MatMul(x, w) z = Neg(y)", "y = MatMul(x, w) z = Neg(y)")
    second.graph.outputs.pop()
    with pytest.raises(UsageError):
        certify(first, second)
    assert Comparison(first, first).outputs()
