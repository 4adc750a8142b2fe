"""Metrics of a model on batches of a dataset, wherever they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from onnx_passes.verify.comparison.declarations import InterfaceHistory
from onnx_passes.verify.comparison.ulp import Array, Kind, kind_of
from onnx_passes.verify.metrics.accumulators import Accumulator, Metric
from onnx_passes.verify.metrics.metrics import accumulator, is_elementwise
from onnx_passes.verify.run.execute import Executable, Sample
from onnx_passes.verify.samples.dataset import Batch

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
    """Tell whether results of the original model are what metrics are held against."""
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
