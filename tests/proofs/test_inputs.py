"""Interfaces that differ, and models that nothing can be said of."""

from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from tests.proofs.models import model

DEFAULT = "g (float[2] x, float[2] c) => (float[2] y) <float[2] c = {{1, {last}}}> {{ y = Add(x, c) }}"


def test_inputs_with_the_same_default() -> None:
    found = prove_equal(model(DEFAULT.format(last=2)), model(DEFAULT.format(last=2)))
    assert isinstance(found, Proof)


def test_who_leaves_an_input_out_must_get_the_same() -> None:
    found = prove_equal(model(DEFAULT.format(last=2)), model(DEFAULT.format(last=3)))
    assert found == Unproved("the input 'c' has another default")


def test_a_model_that_cannot_be_evaluated_is_not_proved() -> None:
    wrong = model("g (float[2, 3] x) => (float[6] y) <int64[1] shape = {5}> { y = Reshape(x, shape) }")
    found = prove_equal(wrong, wrong)
    assert isinstance(found, Unproved)
    assert "cannot be evaluated" in found.reason
