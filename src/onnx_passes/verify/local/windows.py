"""Local verification: the nodes that a rewrite takes out and those it puts in, run side by side on the same values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.evidence import Evidence
from onnx_passes.core.records import Application
from onnx_passes.fragment.fragment import is_plain
from onnx_passes.verify.comparison.compare import Comparison, compare
from onnx_passes.verify.comparison.evidence import NONE, Limits, Promise, PromiseFor, Rounding, evidence_of
from onnx_passes.verify.local.batch import FragmentBatch, NotAtHandError, Window
from onnx_passes.verify.run.activations import Activations, Arrays
from onnx_passes.verify.run.execute import ExecutionError, Sample
from onnx_passes.verify.ties.exact import computed_values
from onnx_passes.verify.ties.explain import UnexplainedError, explain

_FEW = 200
"""So many nodes may always be run to check a pass; more only in proportion to the model."""
MANY = 4000
"""And never more than so many: the time that ONNX Runtime takes for a session grows with the square of its outputs."""

_DIGITS = 8
"""So many units in the last place of the greatest number may be lost on a new way to a value."""


@dataclass(frozen=True)
class WindowCheck:
    """How the values of one application compare, value by value and sample by sample."""

    window: Window
    comparisons: tuple[tuple[Comparison, ...], ...]

    @property
    def equal(self) -> bool:
        """Return whether all values are equal bit by bit."""
        return all(comparison.equal for samples in self.comparisons for comparison in samples)

    def holds(self, promise: Promise) -> bool:
        """Return whether all values satisfy the promise."""
        return self.broken(promise) is None

    def holds_in(self, number: int, promise: Promise, bounds: Sample) -> bool:
        """Return whether the values of one sample satisfy the promise, widened by the bounds of their rounding."""
        return all(promise.holds(*pair) for at, pair in self._rounded({number: bounds}) if at == number)

    def wrong_samples(self, promise: Promise) -> set[int]:
        """Return the numbers of the samples in which a value is not as promised."""
        return {number for number, (comparison, _) in self._rounded({}) if not promise.holds(comparison)}

    def broken(self, promise: Promise, bounds: Mapping[int, Sample] | None = None) -> str | None:
        """Describe the first violation of the promise, widened by the bounds of each sample, or return None."""
        for _, (comparison, known) in self._rounded(bounds or {}):
            if (wrong := promise.broken(comparison, known)) is not None:
                return promise.describe(wrong, known)
        return None

    def _rounded(self, bounds: Mapping[int, Sample]) -> Iterator[tuple[int, tuple[Comparison, Rounding]]]:
        """Yield the comparisons with the numbers of their samples, and how far rounding may bring the values."""
        for samples, old, new in zip(self.comparisons, self.window.expected, self.window.found, strict=True):
            for number, comparison in enumerate(samples):
                known = bounds.get(number, {})
                yield number, (comparison, _allowed(comparison, str(old.name), str(new.name), known))


Suspect = tuple[WindowCheck, Promise]
"""An application that is not as promised, and what is promised."""


class LocalChecks:
    """The applications of one pass after another, collected while it runs and executed together when it has ended.

    A window reads values that are known from a run of the model, which ``look`` returns, or computed by an earlier
    window. What cannot be checked on its own (subgraphs, random operators, values that are not at hand) is missed.
    """

    def __init__(self, look: Callable[[ir.Model], Activations | None], *, most_nodes: int | None = None) -> None:
        self.known: Activations | None = None
        self.windows: list[Window] = []
        self._look, self._most_nodes = look, most_nodes
        self._batch: FragmentBatch | None = None
        self._is_open = False
        self._settled = 0

    def begin(self, model: ir.Model) -> None:
        """Prepare for the rewrites of a pass."""
        self._model = model
        self.end()

    def end(self) -> None:
        """Discard what was collected."""
        self.windows, self._batch, self._is_open, self._settled = [], None, False, 0

    def add(self, application: Application) -> None:
        """Add an application before it changes the graph, unless its new values are known to equal the old ones."""
        self._settled += application.settled
        if application.settled or not application.replaced:
            return
        if not self._is_open:
            self._is_open = True
            if self.known is None or application.many:
                self.known = self._look(self._model)
            if self.known is not None and self.known.samples:
                self._batch = FragmentBatch(self._model, self.known)
        nodes = (*application.matched, *application.added)
        if (
            self._batch is None
            or self._is_full(self._batch, application)
            or application.graph is not self._model.graph
            or not all(is_plain(node, self._model.functions) for node in nodes)
        ):
            return
        with contextlib.suppress(NotAtHandError):
            self.windows.append(self._batch.add(application))

    def follow(self, application: Application) -> None:
        """Reuse what is known of replaced values for the new ones, of an application that keeps bits."""
        self._settled += 1
        if self.known is not None:
            self.known.follow(application.replaced)
        if self._batch is not None:
            self._batch.follow(application.replaced)

    def missed(self, applications: int) -> int:
        """Count the applications that are neither known to keep values nor among the windows."""
        return applications - self._settled - len(self.windows)

    def run(self) -> list[WindowCheck]:
        """Run all windows and compare; what was computed serves later passes. Raises ExecutionError and ModelError."""
        if self._batch is None or not self.windows:
            return []
        wanted = dict.fromkeys(value for window in self.windows for value in (*window.expected, *window.found))
        arrays = self._batch.run(wanted)
        return [_compare(window, arrays, self._batch.activations) for window in self.windows]

    def _is_full(self, batch: FragmentBatch, application: Application) -> bool:
        most = self._most_nodes or max(_FEW, min(application.step.nodes_before // 2, MANY))
        return len(batch.nodes) > most or batch.bytes > batch.activations.limit

    def first_wrong(self, checks: Sequence[WindowCheck], promise_for: PromiseFor) -> tuple[int, Promise, str] | None:
        """Return the first application that is not as promised, what its owner promises, and what is wrong.

        What is beyond a tolerance may be so by rounding: then the nodes that were replaced are no better.
        """
        promises = [promise_for(check.window.application.owner) for check in checks]
        suspects = [pair for pair in zip(checks, promises, strict=True) if not pair[0].holds(pair[1])]
        broken = next((pair for pair in suspects if pair[1].is_equality), None)
        if broken is not None:
            return broken[0].window.application.number, broken[1], str(broken[0].broken(broken[1]))
        suspects = self._without_ties(suspects)
        bounds = self._rounding(suspects) if suspects else None
        for check, promise in suspects:
            difference = check.broken(promise, bounds)
            if difference is not None:
                return check.window.application.number, promise, difference
        return None

    def _without_ties(self, suspects: Sequence[Suspect]) -> Sequence[Suspect]:
        """Leave out the applications that differ by levels that flipped at ties."""
        own = {name for check, _ in suspects for name in check.window.own}
        if self._batch is None or not suspects or not self._batch.decides(own):
            return suspects
        if self._differ_by_ties(suspects, self._batch):
            return []
        if len(suspects) == 1:
            return suspects
        return [each for each in suspects if not self._differ_by_ties([each], self._batch)]

    def _differ_by_ties(self, suspects: Sequence[Suspect], batch: FragmentBatch) -> bool:
        """Return whether applications differ by rounding ties alone, and within the tolerance."""
        windows = [check.window for check, _ in suspects]
        pairs = {old: new for window in windows for old, new in zip(window.expected, window.found, strict=True)}
        own = frozenset(name for window in windows for name in window.own)
        limits = Limits.widest([promise.limits for _, promise in suspects if promise.limits is not None])
        try:
            cut = batch.fragments(list(pairs), list(pairs.values()), own)
            if cut is None:
                return False
            before, after, samples = cut
            values = computed_values(after)
            successors = {str(old.name): values[str(new.name)] for old, new in pairs.items()}
            explain(before, after, successors, samples, limits, batch.executor, asks=False)
        except (ExecutionError, ModelError, UnexplainedError):
            return False
        return True

    def _rounding(self, suspects: Sequence[Suspect]) -> Mapping[int, Sample] | None:
        """Return how far rounding may move the values of applications, by sample, as far as that matters."""
        windows = [check.window for check, _ in suspects]
        values = [value for window in windows for value in (*window.expected, *window.found)]
        wanted = dict.fromkeys(value for value in values if value.producer() is not None)
        own = {name for window in windows for name in window.own}
        numbers = sorted({number for check, promise in suspects for number in check.wrong_samples(promise)})
        assert self._batch is not None
        return self._batch.rounding(
            list(wanted),
            own,
            numbers,
            lambda number, bounds: all(check.holds_in(number, promise, bounds) for check, promise in suspects),
        )


def evidence_of_checks(checks: Sequence[WindowCheck], promise: Promise, started: float) -> Evidence:
    """Sum up how all rewrites of a pass compare."""
    comparisons = [comparison for check in checks for values in check.comparisons for comparison in values]
    samples = max(len(values) for check in checks for values in check.comparisons)
    return evidence_of(promise, comparisons, samples, "onnxruntime", started, windows=len(checks))


def _compare(window: Window, arrays: dict[ir.Value, Arrays], known: Activations) -> WindowCheck:
    comparisons: list[tuple[Comparison, ...]] = []
    for (old, new), expected, found in zip(window.application.replaced, window.expected, window.found, strict=True):
        name, pairs = old.name or new.name or "", zip(arrays[expected], arrays[found], strict=True)
        comparisons.append(tuple(compare({name: left}, {name: right}) for left, right in pairs))
        for value in {old, new}:
            known.put(value, arrays[found])
    return WindowCheck(window, tuple(comparisons))


def _allowed(comparison: Comparison, old: str, new: str, bounds: Sample) -> Rounding:
    """Return how far rounding may bring one value from another.

    It may do so on the way to the new one, too, but by no more than fits numbers of the size that the old ones have:
    who loses digits by way of greater numbers is not excused.
    """
    tensor = comparison.tensors[0]
    if tensor.arrays is None or old not in bounds:
        return NONE
    expected = tensor.arrays[0].astype(np.float64)
    last_bit = float(np.finfo(tensor.arrays[0].dtype).eps)
    most = _DIGITS * last_bit * float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0))
    on_the_new_way = bounds[new] if new in bounds and bounds[new].shape == expected.shape else 0.0
    return {tensor.name: np.maximum(bounds[old], np.minimum(on_the_new_way, most))}
