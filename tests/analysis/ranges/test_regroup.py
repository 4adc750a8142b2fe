from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.numbers.range import Range
from onnx_passes.ops.ranges.movement import regrouped


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool]]:
    primes = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=6))
    cuts = [sorted(draw(st.sets(st.integers(1, len(primes)), max_size=3)) | {len(primes)}) for _ in range(2)]
    before, after = ([math.prod(primes[a:b]) for a, b in zip([0, *cut[:-1]], cut, strict=True)] for cut in cuts)
    return before, after, [draw(st.booleans()) for _ in before]


@given(reshapes(), st.integers(0, 2**16))
def test_reshaping_bounds_is_reshaping_what_they_stand_for(
    case: tuple[list[int], list[int], list[bool]], seed: int
) -> None:
    before, after, varying = case
    shape = [size if varies else 1 for size, varies in zip(before, varying, strict=True)]
    low = np.random.default_rng(seed).normal(size=shape)
    found = regrouped(Range.of(low, low + 1), before, after)
    expected = np.broadcast_to(low, before).reshape(after)
    assert found.low.ndim == len(after)
    assert np.array_equal(np.broadcast_to(found.low, after), expected)


def test_named_dimensions_are_followed_where_they_stay() -> None:
    low = np.arange(3.0).reshape(1, 3, 1)
    found = regrouped(Range.of(low, low), ["N", 3, 2], ["N", 6])
    assert found.low.tolist() == [[0, 0, 1, 1, 2, 2]]
    joined = regrouped(Range.of(low, low), ["N", 3, 2], ["M", 2])
    assert (joined.low.tolist(), joined.high.tolist()) == ([[0.0]], [[2.0]])
