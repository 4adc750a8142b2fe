from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.verify.run.execute import Executable, ExecutionError, Sample
from onnx_passes.verify.run.resources import Pace


class Clocked(Executable):
    """Takes a second for every element, and refuses samples of none."""

    engine = "onnxruntime"

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[int] = []

    def clock(self) -> float:
        return self.now

    def run(self, sample, only=None):
        if not sample["x"].size:
            raise ExecutionError("no elements")
        self.ran.append(sample["x"].size)
        self.now += sample["x"].size
        return sample


def samples(*sizes: int) -> list[Sample]:
    return [{"x": np.zeros(size, np.float32)} for size in sizes]


def ran(limit: float, *sizes: int) -> tuple[list[int], tuple[float, float] | None]:
    ready, pace = Clocked(), Pace(limit)
    ready.run_each(samples(*sizes), all_must_run=False, pace=pace)
    return ready.ran, pace.shortage


def test_the_first_sample_always_runs():
    assert ran(0.5, 2, 2, 2) == ([2], (2.0, 8.0))


def test_others_run_while_what_they_will_take_is_within_the_limit():
    assert ran(5, 1, 2, 3, 4) == ([1, 2, 3], (1.0, 9 / 5))
    assert ran(9, 1, 2, 3, 4) == ([1, 2, 3, 4], None)


def test_no_later_sample_takes_the_place_of_one_that_is_left_out():
    assert ran(2, 1, 3, 1)[0] == [1]


def test_a_refused_sample_says_nothing_of_the_pace():
    assert ran(2, 0, 2, 2) == ([2, 2], None)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 50, 500)])
def test_without_a_pace_all_run(sizes):
    ready = Clocked()
    ready.run_each(samples(*sizes), all_must_run=True)
    assert ready.ran == list(sizes)
