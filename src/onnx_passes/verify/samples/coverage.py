"""Samples that a model takes, found by trying, and how much of the model they cover."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.coverage import Coverage
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.facts.critical_values import critical_values
from onnx_passes.verify.run.execute import (
    Executable,
    ExecutionError,
    MemoryLimitError,
    Sample,
    TimeLimitError,
)
from onnx_passes.verify.run.resources import Pace
from onnx_passes.verify.samples.generate import WIDE, Draft, Sampler, Sampling
from onnx_passes.verify.samples.reference import Array, read_inputs
from onnx_passes.verify.samples.size_search import Misfit, search_sizes
from onnx_passes.verify.samples.sizes import Sizes, SizeSolver
from onnx_passes.verify.samples.sources import listed

_MOST_VALUES = 500
"""In larger models as many as this are looked at, spread over all."""
_MOST_ELEMENTS = 2**12
"""Of larger arrays the first elements are looked at."""
_MOST_PLACES = 8
"""Of operators with more boundaries, as many as this, spread over all."""


def coverage_of(model: ir.Model, values: Callable[[ir.Value], Sequence[Array] | None]) -> Coverage:
    """Count what is seen of a model; of values that are not known nothing is."""
    seen: Counter[str] = Counter()
    read = _uses(model)
    for value, uses in islice(read.items(), 0, None, -(-len(read) // _MOST_VALUES) or 1):
        known = values(value)
        arrays = [array for array in map(_cut, known or ()) if array.dtype.kind in "iuf" and array.size]
        if known and not arrays:
            continue
        flat = np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.empty(0, np.float32)
        if any(traits_of(node).kind == "elementwise" for node, _ in uses):
            seen["inputs"] += 1
            _count(seen, ("negative", "zero", "positive"), flat, np.zeros(1))
        rank = 0 if value.shape is None else len(value.shape)
        places = [place for node, index in uses for place in _spread(critical_values(node, index, rank))]
        single = np.array([place.reshape(()) for place in places if place.size == 1], np.float64)
        seen["boundaries"] += len(places)
        _count(seen, _SIDES, flat, single)
        for place in (place for place in places if place.size > 1):
            for side, compare in zip(_SIDES, (np.less, np.equal, np.greater), strict=True):
                seen[side] += any(_any(compare, array, place) for array in arrays)
    return Coverage(**seen)


_NUMBERS = frozenset(dtype for dtype in ir.DataType if dtype.is_floating_point() or dtype.is_integer())
_SIDES = ("below", "at", "above")


def _uses(model: ir.Model) -> dict[ir.Value, list[tuple[ir.Node, int]]]:
    """Return the values that are computed or given, each with where the graph reads it, unless they are no numbers."""
    found: dict[ir.Value, list[tuple[ir.Node, int]]] = {}
    for node in model.graph:
        for index, value in enumerate(node.inputs):
            if value is not None and not is_constant(value) and (value.dtype is None or value.dtype in _NUMBERS):
                found.setdefault(value, []).append((node, index))
    return found


def _spread(places: list[Array]) -> list[Array]:
    """Choose some boundaries of all; zero is one of signs."""
    others = [place for place in places if place.any()]
    return others[:: -(-len(others) // _MOST_PLACES)] if others else []


def _cut(array: Array) -> Array:
    """Return the beginning of a large array; places along other axes stay where they are."""
    if array.size <= _MOST_ELEMENTS or array.ndim == 0:
        return array
    for axis in (0, array.ndim - 1, *range(1, array.ndim - 1)):
        row = array.size // array.shape[axis]
        array = array[(slice(None),) * axis + (slice(max(1, _MOST_ELEMENTS // row)),)]
        if array.size <= _MOST_ELEMENTS:
            break
    return array


def _count(seen: Counter[str], sides: tuple[str, str, str], flat: Array, places: Array) -> None:
    """Count the places that some elements are below, at and above; NaN is nowhere."""
    if not flat.size or not places.size:
        return
    with np.errstate(over="ignore"):
        places = places.astype(flat.dtype) if flat.dtype.kind == "f" else places
    seen[sides[0]] += int((np.fmin.reduce(flat) < places).sum())
    seen[sides[1]] += int(np.isin(places, flat).sum()) if places.size > 1 else int((flat == places).any())
    seen[sides[2]] += int((np.fmax.reduce(flat) > places).sum())


def _any(compare: Callable[[Array, Array], Array], array: Array, place: Array) -> bool:
    try:
        return bool(compare(array, place.astype(array.dtype, copy=False) if array.dtype.kind == "f" else place).any())
    except ValueError:
        # The axis of channels was cut, or is elsewhere.
        return False


_SIZES = (1, 2, 3, 5, 8, 16, 64)


def run_samples(
    ready: Executable, model: ir.Model, inputs: Sequence[Any], seed: int
) -> tuple[list[Sample], list[Sample]]:
    """Run on samples that are read or, without any, generated; returns those that the model took, and its results.

    Of generated samples, those that the model cannot take are left out, or cut where it takes none.
    """
    inputs = listed(inputs)
    if inputs:
        return ready.run_each(read_inputs(model, inputs), all_must_run=True)
    return run_generated(ready, Sampler(model, Sampling(seed)).draft(thorough=True))


def run_generated(
    ready: Executable,
    draft: Draft,
    given: Callable[[Sample], Sample] = lambda sample: sample,
    *,
    searches: bool = True,
) -> tuple[list[Sample], list[Sample]]:
    """Run on generated samples, as many as the pace allows; return those that the model took, and its results.

    ``given`` turns samples into the form in which the model takes them. If it takes none, their sizes may be to blame:
    dynamic dimensions then get smaller ones in turn, then, if it ``searches``, sizes that fit together. Raises
    ExecutionError with the failure of the generated samples if no size helps. Where the model takes the samples, an
    extra one is tried, too, and cut where it is too large.
    """
    sampler = draft.sampler
    assert sampler is not None
    samples, axes = list(map(given, draft.finish())), sampler.axes
    resizing = _Resizing(ready, sampler, given, draft.pace)
    searches = searches and any(axes.values())
    try:
        taken, results = ready.run_each(samples, all_must_run=False, pace=draft.pace)
        if searches and len(taken) < len(samples):
            resizing.add_decisive(taken, results)
        if draft.extra is not None and draft.pace.shortage is None:
            extra = given(draft.extra)
            resizing.add_first(taken, results, [extra, *_shortened([extra], axes, WIDE[1:])])
        return taken, results
    except ExecutionError as refusal:
        smaller = list(_shortened(samples, axes, _SIZES))
        with contextlib.suppress(ExecutionError):
            if smaller:
                return ready.run_each(smaller, all_must_run=False, pace=draft.pace)
        if not searches or isinstance(refusal, (TimeLimitError, MemoryLimitError)):
            raise
        return resizing.run(refusal)


@dataclass(frozen=True)
class _Fit:
    """A function that changes sizes so that they fit together, and sizes with which a sample ran."""

    sizes: Callable[[Sizes], Sizes]
    ran: Sizes


@dataclass(frozen=True)
class _Resizing:
    """Runs a model on samples of other sizes, as ``sampler`` draws them and ``given`` hands them over."""

    ready: Executable
    sampler: Sampler
    given: Callable[[Sample], Sample]
    pace: Pace

    def run(self, refusal: ExecutionError) -> tuple[list[Sample], list[Sample]]:
        """Run on samples whose sizes meet the requirements of operators, or relations that are searched."""
        if self.sampler.dynamic.keys() <= self.sampler.fixed.keys():
            raise refusal
        fit = self._fit(0)
        if isinstance(fit, str):
            raise ExecutionError(fit) from refusal
        samples: list[Sample] = []
        for number in range(self.sampler.usual):
            with contextlib.suppress(UsageError):
                samples.append(self._sample(number, fit.sizes(self.sampler.sizes(number))))
        try:
            taken, results = self.ready.run_each(samples, all_must_run=False, pace=self.pace)
        except ExecutionError:
            taken, results = self.ready.run_each([self._sample(0, fit.ran)], all_must_run=True)
        self.add_decisive(taken, results)
        return taken, results

    def add_decisive(self, taken: list[Sample], results: list[Sample]) -> None:
        """Run also on samples for which a model takes another way, which may need other sizes."""
        for number, wanted in self.sampler.decisive().items():
            if self.pace.shortage is not None:
                break
            if any(all(_is_at(sample, name, array) for name, array in wanted.items()) for sample in taken):
                continue
            with contextlib.suppress(ExecutionError, UsageError):
                fit = self._fit(number)
                if not isinstance(fit, str):
                    sample = self._sample(number, fit.ran)
                    results.append(self.ready.run(sample))
                    taken.append(sample)

    def add_first(self, taken: list[Sample], results: list[Sample], larger: Iterable[Sample]) -> None:
        """Run on the first of larger samples that the model takes, and in a time that the pace has room for."""
        for sample in larger:
            with contextlib.suppress(ExecutionError):
                started = self.ready.clock()
                found = self.ready.run(sample)
                if self.pace.has_room(self.ready.clock() - started):
                    taken.append(sample)
                    results.append(found)
                    return

    def _sample(self, number: int, sizes: Sizes) -> Sample:
        return self.given(self.sampler.sample(number, sizes))

    def _fit(self, number: int) -> _Fit | str:
        """Fit the sizes of a sample and of others like it; return a message if no sizes are found."""
        sampler = self.sampler
        solver = SizeSolver(sampler.model, list(sampler.dynamic))

        def fitted(sizes: Sizes) -> Sizes:
            # What inference says may be more than the model asks for.
            return solver.solve(sizes, sampler.fixed) or sizes

        known: dict[tuple[int, ...], str] = {}
        ran: list[Sizes] = []

        def attempt(sizes: Sizes) -> str:
            sizes = fitted(sizes)
            key = tuple(sizes.values())
            if key not in known:
                known[key] = self._failure(number, sizes)
                ran.extend([] if known[key] else [sizes])
            return known[key]

        if not attempt(sampler.sizes(number)):
            sampler.note(str(solver))
            return _Fit(fitted, ran[0])
        found = search_sizes(sampler.dynamic, attempt, sampler.order, sampler.fixed, self.ready.clock, sampler.places)
        if isinstance(found, Misfit):
            unmet = solver.unmet(found.sizes)
            hint = "set them with --size NAME=SIZE, or give data with --inputs"
            return f"{found}; {unmet + '; ' if unmet else ''}{hint}"
        sampler.note(str(found))
        return _Fit(lambda sizes: fitted(found.sizes(sizes)), ran[0])

    def _failure(self, number: int, sizes: Sizes) -> str:
        """Return why a model does not run with sizes; empty if it does. Raises TimeLimitError."""
        try:
            self.ready.run(self._sample(number, sizes))
        except TimeLimitError:
            # Other sizes would take as long, each.
            raise
        except (ExecutionError, UsageError) as error:
            return str(error) or type(error).__name__
        return ""


def _is_at(sample: Sample, name: str, array: np.ndarray) -> bool:
    return name in sample and np.array_equal(sample[name], array)


def _shortened(samples: Sequence[Sample], axes: Mapping[str, Sequence[int]], sizes: Sequence[int]) -> Iterator[Sample]:
    """Yield samples in turn, cut to smaller sizes."""
    for number, size in enumerate(sizes):
        sample = samples[number % len(samples)]
        cut = {
            name: array[tuple(slice(size if axis in axes.get(name, ()) else None) for axis in range(array.ndim))]
            for name, array in sample.items()
        }
        if any(cut[name].shape != array.shape for name, array in sample.items()):
            yield cut
