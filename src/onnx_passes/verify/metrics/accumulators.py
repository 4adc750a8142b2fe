"""Metrics over a dataset, taken in batch by batch, on one machine or on many, and merged without loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array, Kind, chunks, kind_of
from onnx_passes.verify.metrics.classification import class_hits, misfit
from onnx_passes.verify.metrics.signature import call_by_name
from onnx_passes.verify.metrics.sums import ExactSum

Metric = Callable[[Array, Array], float]


class Accumulator(Protocol):
    """A metric over a dataset, batch by batch, without keeping the batches.

    What is made of parts of a dataset and merged is the same, to the last bit, as what is made of all of it: counts
    are counts, and sums are exact until they are asked for.
    """

    def update(self, expected: Array, found: Array) -> None:
        """Take in one batch."""
        ...

    def merge(self, other: Self) -> None:
        """Take in what another one has taken in."""
        ...

    def value(self) -> float:
        """Return the metric over all batches so far; NaN if there is nothing to take a mean of."""
        ...


class _Errors:
    """Sums and maxima of the elementwise errors; values that agree, NaN and infinities too, have none."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest = 0.0
        self.total = ExactSum()
        self.squares = ExactSum()
        self.peak = 0.0

    def update(self, expected: Array, found: Array) -> None:
        for a, b in _numbers(expected, found):
            with np.errstate(all="ignore"):
                error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(b - a))
                error[np.isnan(error)] = np.inf
                self.take(error)
            self.count += error.size
            self.greatest = max(self.greatest, float(error.max()))
            self.peak = max(self.peak, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))

    def take(self, error: NDArray[np.float64]) -> None:
        """Sum what the metric needs of the errors."""

    def merge(self, other: Self) -> None:
        self.count += other.count
        self.greatest = max(self.greatest, other.greatest)
        self.peak = max(self.peak, other.peak)
        self.total.merge(other.total)
        self.squares.merge(other.squares)


class _MaxAbsError(_Errors):
    """The greatest absolute error."""

    def value(self) -> float:
        return self.greatest


class _MeanAbsError(_Errors):
    """The mean absolute error."""

    def take(self, error: NDArray[np.float64]) -> None:
        self.total.add(error)

    def value(self) -> float:
        return self.total.over(self.count)


class _Psnr(_Errors):
    """The peak signal-to-noise ratio in decibels."""

    def take(self, error: NDArray[np.float64]) -> None:
        self.squares.add(np.square(error))

    def value(self) -> float:
        if not self.count:
            return math.nan
        mean = self.squares.over(self.count)
        if not mean:
            return math.inf
        if not self.peak or math.isinf(mean):
            return -math.inf
        return 20 * math.log10(self.peak) - 10 * math.log10(mean)


class _CosineSimilarity:
    """The cosine of the angle between all values as one vector."""

    def __init__(self) -> None:
        self._product = ExactSum()
        self._expected = ExactSum()
        self._found = ExactSum()

    def update(self, expected: Array, found: Array) -> None:
        for a, b in _numbers(expected, found):
            with np.errstate(all="ignore"):
                self._product.add(a * b)
                self._expected.add(a * a)
                self._found.add(b * b)

    def merge(self, other: Self) -> None:
        self._product.merge(other._product)
        self._expected.merge(other._expected)
        self._found.merge(other._found)

    def value(self) -> float:
        product, expected, found = self._product.value, self._expected.value, self._found.value
        lengths = math.sqrt(expected) * math.sqrt(found)
        if math.isfinite(lengths) and lengths:
            return min(1.0, max(-1.0, product / lengths))
        return float(expected == found) if lengths == 0 else math.nan


class _Hits:
    """Samples whose class is among the best guesses."""

    def __init__(self, guesses: int = 1) -> None:
        self._guesses = guesses
        self.hits = 0
        self.count = 0

    def update(self, expected: Array, found: Array) -> None:
        hits = class_hits(np.asarray(expected), np.asarray(found), self._guesses)
        self.hits += int(hits.sum())
        self.count += hits.size

    def merge(self, other: Self) -> None:
        self.hits += other.hits
        self.count += other.count


class _Accuracy(_Hits):
    """The share of samples whose class is found."""

    def value(self) -> float:
        return self.hits / self.count if self.count else math.nan


class _Mispredictions(_Hits):
    """The number of samples whose class is not found."""

    def value(self) -> float:
        return float(self.count - self.hits)


class _WeightedMean:
    """The mean of a user's metric over batches, each weighted by its number of samples."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._total = ExactSum()
        self._weight = 0

    def update(self, expected: Array, found: Array) -> None:
        name = getattr(self._metric, "__name__", repr(self._metric))
        weight = len(expected) if np.ndim(expected) else 1
        if not weight:
            return
        called = call_by_name(self._metric)
        try:
            value = float(called(expected, found))
        except Exception as error:
            raise UsageError(
                f"the metric '{name}' raised {type(error).__name__}: {error}",
                hint="a metric takes two arrays, 'expected' and 'found', and returns a number",
            ) from error
        self._total.add(np.array([weight * value]))
        self._weight += weight

    def merge(self, other: Self) -> None:
        self._total.merge(other._total)
        self._weight += other._weight

    def value(self) -> float:
        return self._total.over(self._weight)


_STARTS: Mapping[str, Callable[[], Accumulator]] = {
    "max_abs_error": _MaxAbsError,
    "mean_abs_error": _MeanAbsError,
    "accuracy": _Accuracy,
    "top_5_accuracy": lambda: _Accuracy(5),
    "count_mispredictions": _Mispredictions,
    "cosine_similarity": _CosineSimilarity,
    "psnr": _Psnr,
}


def start(metric: str) -> Accumulator:
    """Start one of our own metrics."""
    return _STARTS[metric]()


def start_mean(metric: Metric) -> Accumulator:
    """Start the mean of any metric over batches, each weighted by its number of samples."""
    return _WeightedMean(metric)


def _numbers(expected: Array, found: Array) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    expected, found = np.asarray(expected), np.asarray(found)
    for array in (expected, found):
        if kind_of(array.dtype) in (Kind.STRING, Kind.COMPLEX):
            raise UsageError(f"this metric takes real numbers, not {array.dtype.name}", hint="check the reference data")
    if expected.shape != found.shape:
        raise misfit(expected, found)
    for _, a, b in chunks(expected, found):
        with np.errstate(invalid="ignore"):
            yield a.astype(np.float64), b.astype(np.float64)
