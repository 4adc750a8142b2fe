from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.passes.quant.widths import Width, exact_width, smallest_width

WIDTHS = st.builds(Width, st.integers(1, 32), st.booleans(), st.booleans())


@given(WIDTHS)
def test_a_range_tells_its_width(width: Width):
    low, high = width.bounds
    if width.is_bipolar:
        assert exact_width(-1, 0) is None
    else:
        assert exact_width(low, high) == width


@given(st.integers(-(2**31), 2**31), st.integers(0, 2**31))
def test_the_smallest_width_holds_a_range_and_one_bit_less_does_not(low: int, size: int):
    width = smallest_width(low, low + size)
    least, greatest = width.bounds
    assert least <= low
    assert low + size <= greatest
    assert not width.is_bipolar
    if width.bits > 1 + width.signed:
        least, greatest = width._replace(bits=width.bits - 1).bounds
        assert low < least or low + size > greatest
