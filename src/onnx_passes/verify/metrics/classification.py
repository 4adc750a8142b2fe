"""Whether the class that is expected of a sample is the one found, for classes and for scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array, Kind, kind_of

# The class of a sample without a greatest score, because one is NaN: no label is this number.
_NO_CLASS = np.iinfo(np.int64).min


def class_hits(expected: Array, found: Array, guesses: int) -> NDArray[np.bool_]:
    """Tell for each sample whether the expected class is among the best guesses."""
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
    """Say that two arrays do not belong together."""
    types = (f"{array.dtype.name}{list(array.shape)}" for array in (expected, found))
    what = "expected {} and found {} do not fit together".format(*types)
    return UsageError(what, hint="check the reference data and which output it is for")
