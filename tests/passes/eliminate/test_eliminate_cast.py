from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.eliminate import cast_laws
from onnx_passes.passes.eliminate.cast_laws import EliminateCast
from tests.passes.eliminate.tools import body, refusals, rewritten


def test_removes_cast_to_the_same_type():
    model = rewritten(EliminateCast(), "g (float[2] x) => (float[2] y) {a = Cast <to = 1> (x) y = Neg (a)}")
    assert body(model) == "y = Neg(x)"


def test_removes_cast_like_of_the_same_type():
    model = rewritten(EliminateCast(), "g (int8 x, int8[2] t) => (int8 y) {a = CastLike (x, t) y = Neg (a)}")
    assert body(model) == "y = Neg(x)"


def test_removes_detour_through_a_wider_type():
    model = rewritten(
        EliminateCast(),
        "g (float16[9] x) => (float16[9] y) {a = Cast <to = 11> (x) b = Cast <to = 10> (a) y = Neg (b)}",
    )
    assert body(model) == "y = Neg(x)"


def test_shortens_a_chain_of_widening_casts_that_others_use():
    text = "g (int8[4] x) => (float[4] y, int16[4] a) {a = Cast <to = 5> (x) y = Cast <to = 1> (a)}"
    assert body(rewritten(EliminateCast(), text)) == "a = Cast<to=5>(x); y = Cast<to=1>(x)"


@pytest.mark.parametrize(
    ("source", "middle", "target"),
    [("float", 7, 1), ("float", 10, 1), ("int32", 1, 6), ("int8", 2, 3), ("double", 1, 11), ("float16", 16, 10)],
)
def test_keeps_pairs_that_lose_something(source: str, middle: int, target: int):
    text = f"g ({source}[4] x) => ({source}[4] y) {{a = Cast <to = {middle}> (x) y = Cast <to = {target}> (a)}}"
    assert "a type is too narrow for all values" in refusals(EliminateCast(), text)


def test_keeps_cast_of_an_unknown_type():
    text = "g (float[2] x) => (float[2] y) {a = Relu (x) b = Cast <to = 1> (a) y = Neg (b)}"
    assert "the type is not known" in refusals(EliminateCast(), text, infer=False)


def test_what_a_type_holds_agrees_with_conversion_of_all_its_values():
    for narrow in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.INT16):
        bits = np.arange(2**narrow.bitwidth).astype(f"u{narrow.bitwidth // 8}").view(narrow.numpy())
        for wide in (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32,
                     ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE):  # fmt: skip
            with np.errstate(all="ignore"):
                exact = bits.astype(np.float64)
                there = bits.astype(wide.numpy()).astype(np.float64)
            lossless = np.array_equal(exact, there, equal_nan=True)
            if np.isfinite(exact).all() or not wide.is_integer():
                assert cast_laws._holds(wide, narrow) == lossless, (wide, narrow)
