"""Metrics of a task: how good results are by their purpose, over all samples or batch by batch."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.naming import fold
from onnx_passes.verify.comparison.ulp import Array, Kind, chunks, kind_of
from onnx_passes.verify.metrics.classification import class_hits, misfit

Metric = Callable[[Array, Array], float]


class Accumulator(Protocol):
    """A metric over a dataset, batch by batch, without keeping the batches."""

    def update(self, expected: Array, found: Array) -> None:
        """Take in one batch."""
        ...

    def value(self) -> float:
        """Return the metric over all batches so far; NaN if there is nothing to take a mean of."""
        ...


class _Errors:
    """Sums and maxima of the elementwise errors; values that agree, NaN and infinities too, have none."""

    def __init__(self) -> None:
        self.count = 0
        self.greatest = 0.0
        self.total = 0.0
        self.squares = 0.0
        self.peak = 0.0

    def update(self, expected: Array, found: Array) -> None:
        for a, b in _numbers(expected, found):
            with np.errstate(all="ignore"):
                error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(b - a))
                error[np.isnan(error)] = np.inf
                self.squares += float(np.square(error).sum())
                self.total += float(error.sum())
            self.count += error.size
            self.greatest = max(self.greatest, float(error.max()))
            self.peak = max(self.peak, float(np.abs(a[np.isfinite(a)]).max(initial=0.0)))


class _MaxAbsError(_Errors):
    def value(self) -> float:
        return self.greatest


class _MeanAbsError(_Errors):
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan


class _Psnr(_Errors):
    def value(self) -> float:
        if not self.count:
            return math.nan
        if not self.squares:
            return math.inf
        if not self.peak or math.isinf(self.squares):
            return -math.inf
        return 20 * math.log10(self.peak) - 10 * math.log10(self.squares / self.count)


class _CosineSimilarity:
    def __init__(self) -> None:
        self._product = self._expected = self._found = 0.0

    def update(self, expected: Array, found: Array) -> None:
        for a, b in _numbers(expected, found):
            with np.errstate(all="ignore"):
                self._product += float(a @ b)
                self._expected += float(a @ a)
                self._found += float(b @ b)

    def value(self) -> float:
        lengths = math.sqrt(self._expected) * math.sqrt(self._found)
        if math.isfinite(lengths) and lengths:
            return min(1.0, max(-1.0, self._product / lengths))
        return float(self._expected == self._found) if lengths == 0 else math.nan


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


class _Accuracy(_Hits):
    def value(self) -> float:
        return self.hits / self.count if self.count else math.nan


class _Mispredictions(_Hits):
    def value(self) -> float:
        return float(self.count - self.hits)


class _WeightedMean:
    """The mean of a user's metric over batches, each weighted by its number of samples."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._total = 0.0
        self._weight = 0

    def update(self, expected: Array, found: Array) -> None:
        name = getattr(self._metric, "__name__", repr(self._metric))
        weight = len(expected) if np.ndim(expected) else 1
        if not weight:
            return
        try:
            value = float(self._metric(expected, found))
        except Exception as error:
            raise UsageError(
                f"the metric '{name}' raised {type(error).__name__}: {error}",
                hint="a metric takes two arrays, the expected and the found one, and returns a number",
            ) from error
        self._total += weight * value
        self._weight += weight

    def value(self) -> float:
        return self._total / self._weight if self._weight else math.nan


def max_abs_error(expected: Array, found: Array) -> float:
    """Return the greatest absolute error; infinite where NaN or an infinity stands against anything else."""
    return _once(_MaxAbsError(), expected, found)


def mean_abs_error(expected: Array, found: Array) -> float:
    """Return the mean absolute error; infinite where NaN or an infinity stands against anything else."""
    return _once(_MeanAbsError(), expected, found)


def accuracy(expected: Array, found: Array) -> float:
    """Return the share of samples for which the expected class is found.

    Each side is either class numbers or scores (logits, one-hot) whose last axis is the classes; of equal scores the
    first wins, and a sample with a score NaN has no class.
    """
    return _once(_Accuracy(), expected, found)


def top_5_accuracy(expected: Array, found: Array) -> float:
    """Return the share of samples whose expected class is among the five best; of equal scores the first are."""
    return _once(_Accuracy(5), expected, found)


def count_mispredictions(expected: Array, found: Array) -> float:
    """Return the number of samples for which another class than the expected one is found."""
    return _once(_Mispredictions(), expected, found)


def cosine_similarity(expected: Array, found: Array) -> float:
    """Return the cosine of the angle between all values as one vector; 1 for two zero vectors, 0 for one."""
    return _once(_CosineSimilarity(), expected, found)


def psnr(expected: Array, found: Array) -> float:
    """Return the peak signal-to-noise ratio in decibels; the peak is the greatest expected magnitude."""
    return _once(_Psnr(), expected, found)


_ACCUMULATORS: Mapping[Metric, Callable[[], Accumulator]] = {
    max_abs_error: _MaxAbsError,
    mean_abs_error: _MeanAbsError,
    accuracy: _Accuracy,
    top_5_accuracy: lambda: _Accuracy(5),
    count_mispredictions: _Mispredictions,
    cosine_similarity: _CosineSimilarity,
    psnr: _Psnr,
}

_ELEMENTWISE = (max_abs_error, mean_abs_error, cosine_similarity, psnr)

METRICS: Mapping[str, Metric] = {cast(Any, metric).__name__: metric for metric in _ACCUMULATORS}


def accumulator(metric: Metric) -> Accumulator:
    """Start a metric over a dataset: exactly for the built-in ones.

    Of any other function it is the mean over the batches, weighted by their number of samples (the first axis of what
    is expected), which is the metric of the dataset only if the function is itself a mean over samples.
    """
    start = _ACCUMULATORS.get(metric)
    return start() if start is not None else _WeightedMean(metric)


def is_elementwise(metric: Metric) -> bool:
    """Tell whether a metric compares number with number, so that it can take in all outputs of a model."""
    return metric in _ELEMENTWISE


def metric_name(metric: Metric | str) -> str:
    """Return the name under which a metric is told: one spelling for those of ours, any other as it is written."""
    if not isinstance(metric, str):
        return str(getattr(metric, "__name__", metric))
    return next((name for name in METRICS if fold(name) == fold(metric)), metric)


def find_metric(name: str, *, base: Path | None = None) -> Metric:
    """Find a metric by its name in any spelling, or import one from ``module:function``.

    Modules are also looked for in ``base`` and in the current folder.
    """
    if ":" in name:
        return _import_metric(name, base)
    known = {fold(key): metric for key, metric in METRICS.items()}
    if fold(name) not in known:
        hint = did_you_mean(name.replace("-", "_"), METRICS)
        choices = f"there are {', '.join(METRICS)}, and functions of your own as module:function"
        raise UsageError(f"there is no metric '{name}'", hint=hint or choices)
    return known[fold(name)]


def _import_metric(path: str, base: Path | None) -> Metric:
    module, _, attribute = path.partition(":")
    words = [*module.split("."), attribute]
    if module.endswith(".py") or not all(word.isidentifier() for word in words):
        raise UsageError(f"'{path}' names no function", hint="write module:function, as in my_package.metrics:recall")
    import_user_modules([module], base=base)
    functions = vars(importlib.import_module(module))
    if attribute not in functions:
        hint = did_you_mean(attribute, (key for key, value in functions.items() if callable(value)))
        raise UsageError(f"there is no function '{attribute}' in the module '{module}'", hint=hint)
    if not callable(functions[attribute]):
        raise UsageError(f"'{path}' is not a function", hint="a metric takes the expected and the found array")
    return functions[attribute]


def _once(state: Accumulator, expected: Array, found: Array) -> float:
    state.update(expected, found)
    return state.value()


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
