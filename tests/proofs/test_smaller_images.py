"""Windows on smaller images."""

from __future__ import annotations

import pytest

from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.smaller_images import shrink_images
from tests.proofs.models import pair

INTERFACE = "float[4,2,{0},{0}] x => float[N,C,H,W] r"


def _weights(scale: float) -> str:
    numbers = ", ".join(str((i * 7 % 11) * scale) for i in range(54))
    return f"w = Constant <value = float[3,2,3,3] {{{numbers}}}> () "


WEIGHTS, DOUBLED = _weights(0.125), _weights(0.25)
TWO = "c = Constant <value_float = 2.0> () "


def _models(before: str, after: str, size: int = 40):
    return pair(INTERFACE.format(size), before, after)


@pytest.mark.parametrize(
    ("attributes", "size", "small"), [("", 40, 3), ("pads = [1,1,1,1]", 40, 3), ("strides = [2,2]", 41, 7)]
)
def test_what_holds_for_small_images_is_proved(attributes: str, size: int, small: int):
    conv = f"Conv <{attributes}>" if attributes else "Conv"
    models = _models(WEIGHTS + TWO + f"a = {conv} (x, w) r = Mul(a, c)", DOUBLED + f"r = {conv} (x, w)", size)
    assert f"images of {small} × {small}" in shrink_images(*models)
    assert models[0].graph.inputs[0].shape == [1, 2, small, small]
    found = prove_equal(*models)
    assert isinstance(found, Proof)
    assert found.level == "equal-in-reals"


def test_a_difference_at_the_border_is_still_found():
    # The padding counts as zero before the sum, and as one behind it.
    before = WEIGHTS + "c = Constant <value_float = 1.0> () a = Add(x, c) r = Conv <pads = [1,1,1,1]> (a, w)"
    after = WEIGHTS + (
        "c = Constant <value_float = 1.0> () p = Constant <value_ints = [0,0,1,1,0,0,1,1]> () "
        "q = Pad(x, p) a = Add(q, c) r = Conv(a, w)"
    )
    models = _models(before, after, 6)
    assert not shrink_images(*models)
    found = prove_equal(*models)
    assert isinstance(found, Unproved)
    assert found.refuted


@pytest.mark.parametrize(
    "body",
    [
        WEIGHTS + 'r = Conv <auto_pad = "SAME_UPPER"> (x, w)',
        "c = Constant <value = float[2] {1.0, 2.0}> () r = Add(x, c)",
        "r = Softmax(x)",
        "r = Transpose <perm = [0,1,3,2]> (x)",
        "r = GlobalAveragePool(x)",
    ],
)
def test_what_depends_on_the_place_is_left_alone(body: str):
    assert not shrink_images(*_models(body, body))
