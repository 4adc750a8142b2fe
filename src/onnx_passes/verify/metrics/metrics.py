"""Metrics of a task by name, their parameters and accepted ranges, measured on batches of a dataset."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from onnx_passes.core.errors import ConfigError, UsageError, did_you_mean
from onnx_passes.core.imports import import_user_modules
from onnx_passes.core.naming import fold
from onnx_passes.verify.comparison.declarations import InterfaceHistory
from onnx_passes.verify.comparison.ulp import Array, Kind, kind_of
from onnx_passes.verify.metrics.accumulators import Accumulator, Metric, require_named, start, start_mean
from onnx_passes.verify.run.execute import Executable, Sample
from onnx_passes.verify.samples.dataset import Batch


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
    """Return whether a metric compares number with number, so that it can take in all outputs of a model."""
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


MetricRange = tuple[float | None, float | None]
ANY: MetricRange = (None, None)
"""A range without ends: measured, and nothing held against it."""

_CONDITION = re.compile(r"(?P<name>[^=<>]+?)\s*(?:(?P<sign><=|>=|=)(?P<ends>.*))?")


def accepted(value: float, limits: MetricRange) -> bool:
    """Return whether a value is in a range, ends included; NaN is in none."""
    least, most = limits
    return not math.isnan(value) and (least is None or value >= least) and (most is None or value <= most)


def range_text(limits: MetricRange) -> str:
    """Say which values are accepted."""
    match limits:
        case None, None:
            return "anything"
        case least, None:
            return f"at least {least:g}"
        case None, most:
            return f"at most {most:g}"
        case least, most:
            return f"exactly {least:g}" if least == most else f"{least:g} to {most:g}"


def parse_ranges(ranges: Mapping[str, object], *, where: str = "verify.metrics") -> dict[str, MetricRange]:
    """Read the accepted range of each metric, ``[min, max]`` with nothing for an open end."""
    if not isinstance(ranges, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError("expected metrics and their ranges", where=where, hint="write name: [min, max]")
    return {str(name): _range(limits, f"{where}.{name}") for name, limits in ranges.items()}


def parse_condition(text: str) -> tuple[str, MetricRange | None]:
    """Read ``NAME``, ``NAME=MIN,MAX`` with nothing for an open end, ``NAME>=MIN`` or ``NAME<=MAX``."""
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise _unreadable(text)
    if found["sign"] is None:
        return found["name"], None
    ends = [part.strip() for part in found["ends"].split(",")]
    if len(ends) != (2 if found["sign"] == "=" else 1):
        raise _unreadable(text)
    try:
        numbers = [float(end) if end else None for end in ends]
    except ValueError:
        raise _unreadable(text) from None
    if found["sign"] != "=":
        if numbers[0] is None:
            raise _unreadable(text)
        numbers = [None, *numbers] if found["sign"] == "<=" else [*numbers, None]
    return found["name"], _range(numbers, f"metric '{found['name']}'")


def _unreadable(text: str) -> UsageError:
    return UsageError(f"'{text}' is no metric with a range", hint="write NAME, NAME=MIN,MAX, NAME>=MIN or NAME<=MAX")


def _range(limits: object, where: str) -> MetricRange:
    hint = "write [min, max], with null for an open end"
    if not isinstance(limits, Sequence) or isinstance(limits, str):
        raise ConfigError(f"expected a range, found {limits!r}", where=where, hint=hint)
    ends = list(cast(Sequence[object], limits))
    if len(ends) != 2:
        raise ConfigError(f"a range has two ends, found {len(ends)}", where=where, hint=hint)
    least, most = (_end(end, where, hint) for end in ends)
    if least is not None and most is not None and least > most:
        raise ConfigError(f"the range from {least:g} to {most:g} is empty", where=where, hint=hint)
    return least, most


def _end(end: object, where: str, hint: str) -> float | None:
    if end is None:
        return None
    if not isinstance(end, int | float) or isinstance(end, bool) or math.isnan(end):
        raise ConfigError(f"{end!r} is no end of a range", where=where, hint=hint)
    return float(end)


_KEPT_BYTES = 2**28
"""Results of the original model that are kept in memory; those beyond are computed again when they are needed."""


class Results(Protocol):
    """Results of the original model, batch by batch."""

    def results(self, number: int, batch: Batch) -> Sample:
        """Return the results for a batch, by its number."""
        ...


class Originals:
    """Results of the original model, kept in memory."""

    def __init__(self, ready: Executable, *, most_bytes: int = _KEPT_BYTES) -> None:
        self._ready = ready
        self._room = most_bytes
        self._kept: dict[int, Sample] = {}
        self._last: tuple[int, Sample] = (-1, {})

    def results(self, number: int, batch: Batch) -> Sample:
        """Return the results for a batch, by its number."""
        if number in self._kept:
            return self._kept[number]
        if self._last[0] != number:
            found = batch.run(self._ready)
            self._last = number, found
            size = sum(array.nbytes for array in found.values())
            if size <= self._room:
                self._room -= size
                self._kept[number] = found
        return self._last[1]


def expectations(
    metric: Metric, number: int, batch: Batch, found: Sample, originals: Results
) -> Iterator[tuple[str, Array]]:
    """Yield the outputs that a metric looks at, each with what it is held against.

    Errors of numbers look at all outputs of numbers, and are held against the original model where only labels are
    given; any other metric looks at the first output that something is expected of.
    """
    expected, everywhere = batch.expected, is_elementwise(metric)
    if expected is None or (everywhere and _are_labels(expected, found)):
        expected = originals.results(number, batch)
    if everywhere:
        yield from ((name, array) for name, array in expected.items() if _is_real(array))
    else:
        yield from list(expected.items())[:1]


def _are_labels(expected: Sample, found: Sample) -> bool:
    return any(_is_label(array, found[name]) for name, array in expected.items() if name in found)


def _is_label(expected: Array, found: Array) -> bool:
    is_column = expected.shape[-1:] == (1,) != found.shape[-1:]
    return kind_of(expected.dtype) is Kind.INTEGER and (expected.ndim < found.ndim or is_column)


def _is_real(array: Array) -> bool:
    return kind_of(array.dtype) not in (Kind.STRING, Kind.COMPLEX)


Metrics = Mapping[str, Metric]
States = dict[str, Accumulator]


def measure(
    metrics: Metrics,
    batches: Iterable[tuple[int, Batch]],
    run: Callable[[int, Batch], Sample],
    originals: Results,
    interface: InterfaceHistory,
) -> States:
    """Run a model on batches and take in what metrics look at."""
    states = {name: accumulator(metric) for name, metric in metrics.items()}
    for number, batch in batches:
        found = interface.under_old_names(run(number, batch))
        for name, state in states.items():
            known = dict(expectations(metrics[name], number, batch, found, originals))
            for output in interface.left(known, found):
                state.update(interface.as_returned_now(output, known[output], found[output]), found[output])
    return states


def run_now(ready: Executable, interface: InterfaceHistory) -> Callable[[int, Batch], Sample]:
    """Return what runs a model on batches in the form that its inputs have now."""
    return lambda _, batch: interface.as_taken_now(batch).run(ready)


def needs_originals(metrics: Metrics, *, has_expected: bool) -> bool:
    """Return whether results of the original model are what metrics are held against."""
    return not has_expected or any(map(is_elementwise, metrics.values()))


def merged(parts: Iterable[States]) -> States:
    """Merge what came of parts of a dataset, of which there is at least one."""
    whole: States | None = None
    for part in parts:
        if whole is None:
            whole = part
            continue
        for name, state in whole.items():
            state.merge(part[name])
    assert whole is not None
    return whole
