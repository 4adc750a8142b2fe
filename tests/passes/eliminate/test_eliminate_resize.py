from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.no_op_laws import EliminateResize
from tests.passes.eliminate.tools import body, refusals, rewritten

ONES = "float[4] ones = {1.0, 1.0, 1.0, 1.0}"


def _resize(attributes: str, inputs: str, constants: str, shape: str = "1,2,3,2") -> str:
    return f"""g (float[{shape}] x) => (float[{shape}] y) <{constants}> {{
        a = Resize <{attributes}> ({inputs}) y = Neg (a)
    }}"""


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_removes_scales_of_one(mode: str):
    assert body(rewritten(EliminateResize(), _resize(f'mode = "{mode}"', "x, , ones", ONES))) == "y = Neg(x)"


@pytest.mark.parametrize(("attributes", "sizes"), [("", "1, 2, 3, 2"), ("axes = [3, -2]", "2, 3")])
def test_removes_sizes_that_are_there(attributes: str, sizes: str):
    count = sizes.count(",") + 1
    text = _resize(
        f'mode = "linear"{", " if attributes else ""}{attributes}', "x, , , s", f"int64[{count}] s = {{{sizes}}}"
    )
    assert body(rewritten(EliminateResize(), text)) == "y = Neg(x)"


def test_removes_upsample_by_one():
    text = f"g (float[1,1,2,2] x) => (float[1,1,2,2] y) <{ONES}> {{a = Upsample (x, ones) y = Neg (a)}}"
    assert body(rewritten(EliminateResize(), text, opset=9)) == "y = Neg(x)"


def test_removes_resize_of_the_first_version():
    text = f"g (float[1,1,2,2] x) => (float[1,1,2,2] y) <{ONES}> {{a = Resize (x, ones) y = Neg (a)}}"
    assert body(rewritten(EliminateResize(), text, opset=10)) == "y = Neg(x)"


@pytest.mark.parametrize(
    ("attributes", "inputs", "constants", "reason"),
    [
        ('mode = "nearest"', "x, , s", "float[4] s = {1.0, 1.0, 2.0, 1.0}", "a scale is not known to be one"),
        ('mode = "nearest"', "x, , , s", "int64[4] s = {1, 2, 3, 4}", "a size changes, or is not known"),
        (
            'mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"',
            "x, roi, ones",
            f"{ONES}, float[8] roi = {{0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.5, 0.5}}",
            "it crops",
        ),
    ],
)
def test_keeps_what_changes_something(attributes: str, inputs: str, constants: str, reason: str):
    text = _resize(attributes, inputs, constants).replace("(float[1,2,3,2] y)", "(float[A,B,C,D] y)")
    assert reason in refusals(EliminateResize(), text)


def test_keeps_sizes_of_unknown_dimensions():
    text = _resize('mode = "nearest"', "x, , , s", "int64[4] s = {1, 2, 3, 2}", shape="1,2,N,2")
    assert "a size changes, or is not known" in refusals(EliminateResize(), text, infer=False)
