"""Metrics over a dataset, batch by batch, merged in any order with the same result: classes, errors and exact sums."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array, Kind, chunks, kind_of

_Metric = Callable[..., Any]

_EXPECTED = ("expected", "labels", "targets", "reference", "y_true")
_FOUND = ("found", "outputs", "predictions", "logits", "y_pred")
_HINT = f"name one parameter 'expected' (or {', '.join(_EXPECTED[1:])}), one 'found' (or {', '.join(_FOUND[1:])})"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def call_by_name(metric: _Metric) -> Callable[[Array, Array], Any]:
    """Return a function of the expected and the found array, which gives each to the parameter of its name.

    Raises UsageError if the names do not tell which parameter takes which array.
    """
    roles = _roles(metric)

    def call(expected: Array, found: Array) -> Any:
        arrays = {name: expected if role == "expected" else found for name, role in roles.items()}
        return metric(**arrays)

    return call


def require_named(metric: _Metric) -> None:
    """Raise UsageError unless the names of the parameters tell which of them takes which array."""
    _roles(metric)


def _roles(metric: _Metric) -> dict[str, str]:
    """Return which array each parameter takes; parameters with a default and another name keep their default."""
    name = getattr(metric, "__name__", repr(metric))
    try:
        parameters = list(inspect.signature(metric).parameters.values())
    except (TypeError, ValueError) as error:
        raise UsageError(f"the metric '{name}' does not tell the names of its parameters", hint=_HINT) from error
    roles = {parameter.name: role for parameter in parameters if (role := _role(parameter))}
    needed = {p.name for p in parameters if p.default is p.empty and p.kind not in _VARIADIC}
    if sorted(roles.values()) != ["expected", "found"] or needed - roles.keys():
        takes = ", ".join(map(str, parameters))
        raise UsageError(f"the names in '{name}({takes})' do not tell which array is which", hint=_HINT)
    return roles


def _role(parameter: inspect.Parameter) -> str:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return ""
    return "expected" if parameter.name in _EXPECTED else "found" if parameter.name in _FOUND else ""


_BITS = 53
_HALF = 27
_LEAST = -1126
"""The exponent of the unit: the last bit of the smallest number, whose 53 bits end at 2**-1126."""
_MOST_AT_ONCE = 10_000_000
"""Halves of so many significands add up without rounding."""


@dataclass
class ExactSum:
    """The sum of numbers, as one integer of a unit that divides all of them; infinities and NaN are counted apart."""

    units: int = 0
    above: int = 0
    below: int = 0
    undefined: int = 0

    def add(self, numbers: NDArray[np.float64]) -> None:
        """Add all numbers of an array, of any shape."""
        flat = numbers.reshape(-1)
        flat = flat[flat != 0]
        finite = np.isfinite(flat)
        if not finite.all():
            self.above += int((flat == np.inf).sum())
            self.below += int((flat == -np.inf).sum())
            self.undefined += int(np.isnan(flat).sum())
            flat = flat[finite]
        for start in range(0, flat.size, _MOST_AT_ONCE):
            self._add_finite(flat[start : start + _MOST_AT_ONCE])

    def _add_finite(self, flat: NDArray[np.float64]) -> None:
        fractions, exponents = np.frexp(flat)
        significands = np.ldexp(fractions, _BITS).astype(np.int64)
        least = int(exponents.min())
        places = exponents - least
        high = np.bincount(places, weights=significands >> _HALF)
        low = np.bincount(places, weights=significands & (2**_HALF - 1))
        total = 0
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            total += ((int(high[place]) << _HALF) + int(low[place])) << place
        self.units += total << (least - _BITS - _LEAST)

    def merge(self, other: ExactSum) -> None:
        """Add the terms of another sum."""
        self.units += other.units
        self.above += other.above
        self.below += other.below
        self.undefined += other.undefined

    @property
    def value(self) -> float:
        """Return the sum, rounded once."""
        return self.over(1)

    def over(self, count: int) -> float:
        """Return the sum divided by a number, rounded once; NaN by nothing."""
        if not count or self.undefined or (self.above and self.below):
            return math.nan
        if self.above or self.below:
            return math.inf if self.above else -math.inf
        try:
            return self.units / (count << -_LEAST)
        except OverflowError:
            return math.inf if self.units > 0 else -math.inf


Metric = Callable[[Array, Array], float]


class Accumulator(Protocol):
    """A metric over a dataset, batch by batch, without keeping the batches.

    What is made of parts of a dataset and merged is the same, to the last bit, as what is made of all of it: counts
    are counts, and sums are exact until they are asked for.
    """

    def update(self, expected: Array, found: Array) -> None:
        """Accumulate one batch."""
        ...

    def merge(self, other: Self) -> None:
        """Merge another accumulator."""
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
        """Accumulate the sums of errors that the metric needs."""

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


# The class of a sample without a greatest score, because one is NaN: no label is this number.
_NO_CLASS = np.iinfo(np.int64).min


def class_hits(expected: Array, found: Array, guesses: int) -> NDArray[np.bool_]:
    """Return for each sample whether the expected class is among the best guesses."""
    expected, found = _without_column(expected, found), _without_column(found, expected)
    scored = _has_scores(expected, found), _has_scores(found, expected)
    if expected.ndim == found.ndim and scored[0] != scored[1]:
        raise misfit(expected, found)
    labels = _best(expected) if scored[0] else _classes(expected)
    samples = found.shape[:-1] if scored[1] else found.shape
    if labels.shape != samples or (all(scored) and expected.shape != found.shape):
        raise misfit(expected, found)
    if scored[1]:
        return _among_best(labels, _scores(found), guesses)
    if guesses > 1:
        raise UsageError(f"the best {guesses} cannot be told from one class a sample", hint="give the scores instead")
    return np.asarray(labels == _classes(found))


def _has_scores(array: Array, other: Array) -> bool:
    if array.ndim != other.ndim:
        return array.ndim > other.ndim
    return array.ndim > 1 or (array.ndim == 1 and not _is_integer(array))


def _without_column(array: Array, other: Array) -> Array:
    """Take class numbers out of a last axis of length one, as TopK and many datasets have them."""
    is_column = array.ndim > 1 and array.shape[-1] == 1 and _is_integer(array) and other.ndim != array.ndim + 1
    return array[..., 0] if is_column else array


def _among_best(labels: NDArray[np.int64], scores: Array, guesses: int) -> NDArray[np.bool_]:
    last = scores.shape[-1] - 1
    classes: NDArray[np.int64] = np.arange(last + 1, dtype=np.int64)
    label = labels[..., None]
    own: Array = np.take_along_axis(scores, np.clip(label, 0, last), axis=-1)
    ahead: NDArray[np.bool_] = (scores > own) | ((scores == own) & (classes < label))
    known: NDArray[np.bool_] = (labels >= 0) & (labels <= last) & ~_has_nan(scores)
    return np.asarray(known & (ahead.sum(axis=-1) < guesses))


def _best(array: Array) -> NDArray[np.int64]:
    scores = _scores(array)
    return np.where(_has_nan(scores), _NO_CLASS, scores.argmax(axis=-1))


def _has_nan(scores: Array) -> NDArray[np.bool_]:
    return np.asarray(np.asarray(np.isnan(scores)).any(axis=-1))


def _scores(array: Array) -> Array:
    if array.shape[-1] < 2:
        raise UsageError(
            f"scores of shape {list(array.shape)} choose no class", hint="the last axis must hold two or more classes"
        )
    with np.errstate(invalid="ignore"):
        return array if array.dtype.kind in "biu" else array.astype(np.float64)


def _classes(array: Array) -> NDArray[np.int64]:
    if not _is_integer(array):
        raise UsageError(f"class numbers must be integers, not {array.dtype.name}", hint="convert the labels")
    return array.astype(np.int64)


def _is_integer(array: Array) -> bool:
    return kind_of(array.dtype) is Kind.INTEGER


def misfit(expected: Array, found: Array) -> UsageError:
    """Return the error for two arrays that do not fit together."""
    types = (f"{array.dtype.name}{list(array.shape)}" for array in (expected, found))
    what = "expected {} and found {} do not fit together".format(*types)
    return UsageError(what, hint="check the reference data and which output it is for")
