"""Metrics of a task: how good results are by their purpose, over all samples or batch by batch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.naming import fold
from onnx_passes.verify.comparison.ulp import Array
from onnx_passes.verify.metrics.accumulators import Accumulator, Metric, start, start_mean
from onnx_passes.verify.metrics.signature import require_named


def max_abs_error(expected: Array, found: Array) -> float:
    """Return the greatest absolute error; infinite where NaN or an infinity stands against anything else."""
    return _once("max_abs_error", expected, found)


def mean_abs_error(expected: Array, found: Array) -> float:
    """Return the mean absolute error; infinite where NaN or an infinity stands against anything else."""
    return _once("mean_abs_error", expected, found)


def accuracy(expected: Array, found: Array) -> float:
    """Return the share of samples for which the expected class is found.

    Each side is either class numbers or scores (logits, one-hot) whose last axis is the classes; of equal scores the
    first wins, and a sample with a score NaN has no class.
    """
    return _once("accuracy", expected, found)


def top_5_accuracy(expected: Array, found: Array) -> float:
    """Return the share of samples whose expected class is among the five best; of equal scores the first are."""
    return _once("top_5_accuracy", expected, found)


def count_mispredictions(expected: Array, found: Array) -> float:
    """Return the number of samples for which another class than the expected one is found."""
    return _once("count_mispredictions", expected, found)


def cosine_similarity(expected: Array, found: Array) -> float:
    """Return the cosine of the angle between all values as one vector; 1 for two zero vectors, 0 for one."""
    return _once("cosine_similarity", expected, found)


def psnr(expected: Array, found: Array) -> float:
    """Return the peak signal-to-noise ratio in decibels; the peak is the greatest expected magnitude."""
    return _once("psnr", expected, found)


_ELEMENTWISE = (max_abs_error, mean_abs_error, cosine_similarity, psnr)
_BY_CLASS = (accuracy, top_5_accuracy, count_mispredictions)

METRICS: Mapping[str, Metric] = {cast(Any, metric).__name__: metric for metric in (*_ELEMENTWISE, *_BY_CLASS)}


def accumulator(metric: Metric) -> Accumulator:
    """Start a metric over a dataset: exactly for the built-in ones.

    Of any other function it is the mean over the batches, weighted by their number of samples (the first axis of what
    is expected), which is the metric of the dataset only if the function is itself a mean over samples.
    """
    return start(cast(Any, metric).__name__) if metric in METRICS.values() else start_mean(metric)


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
        raise UsageError(f"'{path}' is not a function", hint="a metric takes the arrays 'expected' and 'found'")
    require_named(functions[attribute])
    return functions[attribute]


def _once(metric: str, expected: Array, found: Array) -> float:
    state = start(metric)
    state.update(expected, found)
    return state.value()
