"""Runs of two whole models, which decide whether a difference between parts of them is one."""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.excuses import ROUNDING
from onnx_passes.proofs.runs import Array, Feeds, Runner, drawn
from onnx_passes.proofs.values import same

_MOST_UNITS = 2.0**10
"""Units of rounding, of the largest result, by which results may be apart where rounding is excused."""
_SPECIALS = (np.inf, -np.inf, np.nan, 0.0, -0.0)


@dataclass(frozen=True)
class Counterexample:
    """Inputs of two models, and the places of the outputs on which they differ."""

    feeds: Feeds
    outputs: tuple[int, ...]


class WholeRuns:
    """Two models with one interface and known sizes, run side by side by ONNX Runtime.

    Results differ if their bits do, all NaN being one, and no flag of fast math in ``allow`` excuses it; outputs in
    ``ignored`` are not looked at.
    """

    def __init__(
        self, before: ir.Model, after: ir.Model, allow: Collection[str], ignored: Container[int], seconds: float
    ) -> None:
        self._model = before
        self._runners = Runner(before), Runner(after)
        self._allow = frozenset(allow)
        self._ignored = ignored
        self._seconds = seconds

    def try_on(self, example: Mapping[str, Array]) -> Counterexample | None:
        """Run on inputs given in part, for these or smaller sizes; the others are drawn."""
        for feeds in drawn(self._model, 1):
            given = {
                name: np.resize(example[name], array.shape).astype(array.dtype, copy=False)
                for name, array in feeds.items()
                if name in example and example[name].size
            }
            return self._run({**feeds, **given})
        return None

    def search(self) -> Counterexample | None:
        """Run on ordinary inputs, then on special values: all of an input, or one among ordinary ones."""
        deadline = time.perf_counter() + self._seconds
        for feeds in (*drawn(self._model), *self._special()):
            found = self._run(feeds)
            if found is not None or time.perf_counter() > deadline:
                return found
        return None

    def _special(self) -> Iterator[Feeds]:
        for ordinary in drawn(self._model, 1):
            for name, array in ordinary.items():
                for number in self._numbers(array.dtype):
                    yield {**ordinary, name: np.full_like(array, number)}
                    if array.size > 1:
                        alone = array.copy()
                        alone.reshape(-1)[0] = number
                        yield {**ordinary, name: alone}
            for place in range(6):
                yield {
                    name: np.full_like(array, numbers[place % len(numbers)])
                    for name, array in ordinary.items()
                    if (numbers := self._numbers(array.dtype))
                }

    def _numbers(self, dtype: np.dtype[Any]) -> list[Any]:
        """List special values of a type; where rounding is excused, none that make intermediate results overflow."""
        if dtype.kind == "b":
            return [False, True]
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return [0, 1, info.max, info.min, info.max // 2 + 1]
        largest = float(ir.DataType.from_numpy(dtype).max)
        return [*_SPECIALS, *(() if self._allow & ROUNDING else (largest, -largest))]

    def _run(self, feeds: Feeds) -> Counterexample | None:
        first, second = (runner(feeds) for runner in self._runners)
        if first is None or second is None:
            is_alone = all(runner.is_loaded for runner in self._runners) and first is not second
            return Counterexample(feeds, tuple(range(len(self._model.graph.outputs)))) if is_alone else None
        pairs = enumerate(zip(first, second, strict=True))
        wrong = tuple(place for place, (a, b) in pairs if place not in self._ignored and self._differ(a, b))
        return Counterexample(feeds, wrong) if wrong else None

    def _differ(self, x: Array, y: Array) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype:
            return True
        if x.dtype.kind in "OSU":
            return not np.array_equal(x, y)
        wrong = ~same(x, y)
        if x.dtype.kind in "biu" or not wrong.any():
            return bool(wrong.any())
        with np.errstate(all="ignore"):
            a, b = x.astype(np.float64), y.astype(np.float64)
            nan = np.isnan(a) | np.isnan(b)
            infinite = (np.isinf(a) | np.isinf(b)) & ~nan
            zeros = (a == 0) & (b == 0)
            rounded = ~(nan | infinite | zeros)
            if self._allow & ROUNDING:
                finite = np.isfinite(a) & np.isfinite(b)
                size = max(np.abs(a[finite]).max(initial=0.0), np.abs(b[finite]).max(initial=0.0))
                unit = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 2.0**-8
                rounded &= np.abs(a - b) > _MOST_UNITS * unit * size
        special = {"nnan": nan, "ninf": infinite, "nsz": zeros}
        grave = [where for flag, where in special.items() if flag not in self._allow]
        return any(bool((wrong & where).any()) for where in (*grave, rounded))
