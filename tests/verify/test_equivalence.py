"""Two models on the same data."""

from __future__ import annotations

import pytest

from onnx_passes.verify.equivalence import compare_models
from onnx_passes.verify.run.execute import ExecutionError
from tests.passes.tools import model_of

PICKY = """g (float[N,4] x) => (float[2,2] y) <int64[2] shape = {2, 2}> {
    r = Reshape (x, shape) y = OPERATOR (r)
}"""


def picky(operator: str):
    return model_of(PICKY.replace("OPERATOR", operator))


def test_models_that_compute_the_same_are_equal():
    assert compare_models(picky("Neg"), picky("Neg")).equal
    assert not compare_models(picky("Neg"), picky("Relu")).equal


def test_generated_samples_that_the_first_model_cannot_take_are_left_out():
    assert len(compare_models(picky("Neg"), picky("Neg")).results) == 1


def test_no_sample_at_all_is_an_error():
    never = PICKY.replace("{2, 2}", "{2, 7}").replace("[2,2] y", "[2,7] y").replace("OPERATOR", "Neg")
    with pytest.raises(ExecutionError, match="failed on the data"):
        compare_models(model_of(never), model_of(never))
