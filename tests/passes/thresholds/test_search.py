"""Thresholds are found on the function itself, for integers and for floats, exactly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.passes.thresholds.search import FloatPoints, Integers, bisect, enumerate_steps


def counted(x: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return (x[:, :, None] >= thresholds[:, None, :]).sum(axis=2)


@given(
    st.floats(0.015625, 7.25, width=32),
    st.floats(-5, 5, width=32),
    st.integers(-300, 0),
    st.integers(0, 300),
    st.integers(1, 5),
)
def test_agrees_with_the_function_on_every_integer(scale: float, bias: float, low: int, high: int, bits: int):
    def function(x: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(x / np.float32(scale) + np.float32(bias)), 0, 2**bits - 1).astype(np.int64)

    domain = Integers(np.array([low]), np.array([high]))
    thresholds = bisect(function, domain, np.arange(1, 2**bits))
    x = np.arange(low, high + 1, dtype=np.float32)[None]
    np.testing.assert_array_equal(counted(x, thresholds), function(x))


def test_half_even_ties_are_kept():
    domain = Integers(np.array([-8]), np.array([8]))
    thresholds = bisect(lambda x: np.clip(np.rint(x / 2), 0, 3).astype(int), domain, np.arange(1, 4))
    # 1/2 rounds to 0, 3/2 to 2, 5/2 to 2.
    np.testing.assert_array_equal(thresholds, [[2, 3, 6]])


@given(
    st.floats(0.0078125, 1024, width=32),
    st.floats(-100, 100, width=32),
    st.lists(st.floats(-1e4, 1e4, width=32), max_size=50),
)
def test_agrees_with_the_function_on_floats_next_to_each_threshold(scale: float, bias: float, more: list[float]):
    def function(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip(np.rint((x + np.float32(bias)) / np.float32(scale)), -4, 3).astype(np.int64)

    domain = FloatPoints.all(1)
    thresholds = domain.points(bisect(function, domain, np.arange(-3, 4)))
    around = [thresholds, np.nextafter(thresholds, -np.inf), np.nextafter(thresholds, np.inf), [more]]
    x = np.concatenate([np.asarray(a, np.float32).reshape(1, -1) for a in around], axis=1)
    np.testing.assert_array_equal(counted(x, thresholds) - 4, function(x))


def test_levels_beyond_reach_lie_behind_the_domain():
    domain = Integers(np.array([0, 0]), np.array([5, 9]))
    thresholds = bisect(lambda x: np.minimum(x, 6).astype(int), domain, np.arange(1, 8))
    assert thresholds[0].tolist() == [1, 2, 3, 4, 5, 6, 6]
    assert thresholds[1].tolist() == [1, 2, 3, 4, 5, 6, 10]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40))
def test_any_function_is_the_sum_of_its_steps(table: list[int]):
    values = np.array(table)
    domain = Integers(np.array([0]), np.array([len(table) - 1]))
    steps = enumerate_steps(lambda x: values[x.astype(int)], domain)
    x = np.arange(len(table))
    found = steps.start[0] + ((x[:, None] >= steps.at[0]) * steps.jump[0]).sum(axis=1)
    np.testing.assert_array_equal(found, values)
