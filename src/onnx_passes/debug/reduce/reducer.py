"""Reduce a failing model to the least that still fails the same way."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import onnx_ir as ir

from onnx_passes.check.blame.diagnosis import BAD, GOOD, Mark, first_bad
from onnx_passes.core.collector import paused_collector
from onnx_passes.core.errors import UsageError
from onnx_passes.debug.reduce import steps
from onnx_passes.debug.reduce import values as data
from onnx_passes.debug.reduce.case import Cutter, FailingCase, record, refitted
from onnx_passes.debug.reduce.interesting import Fails
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.weightless import weightless
from onnx_passes.verify.run.execute import Executor, Sample

_HASHED = 1 << 20
"""Cases with more bytes of data than this are not remembered: telling them apart would cost more than a test."""


class Validity:
    """The strictest check of onnx that a model passes, to be passed by all that is made of it."""

    def __init__(self, model: ir.Model) -> None:
        self._full = _check(model, full=True)
        self._plain = self._full or _check(model, full=False)

    def holds(self, model: ir.Model) -> bool:
        """Return whether a model passes the check."""
        return _check(model, full=self._full) if self._plain else True

    @staticmethod
    def key(case: FailingCase) -> bytes | None:
        """Return a digest of a case, or None if it holds too much data."""
        tensors = [v.const_value for g in case.model.graphs() for v in g.initializers.values() if v.const_value]
        arrays = [array for sample in case.samples for array in sample.values()]
        if sum(item.nbytes for item in (*tensors, *arrays)) > _HASHED:
            return None
        digest = hashlib.sha256(ir.to_proto(case.model).SerializeToString())
        for sample in case.samples:
            for name, array in sample.items():
                data = str(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
                digest.update(f"{name} {array.dtype} {array.shape} ".encode() + data)
        return digest.digest()


def _check(model: ir.Model, *, full: bool) -> bool:
    import onnx

    try:
        onnx.checker.check_model(weightless(model), full_check=full)  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, onnx.defs.SchemaError):
        return False
    except (ir.serde.SerdeError, ValueError):
        return False
    return True


_STRUCTURE: tuple[steps.Step, ...] = (
    steps.fewer_outputs,
    steps.no_functions,
    steps.no_branches,
    steps.constant_branches,
    steps.nested_values,
    steps.bypassed_nodes,
    steps.fewer_node_inputs,
)
_DATA: tuple[steps.Step, ...] = (
    data.smaller_dimensions,
    data.without_leading_axis,
    data.simpler_constants,
    data.simpler_inputs,
    steps.fewer_attributes,
    steps.unused_parts,
)
_ROUNDS = 8


@dataclass(frozen=True)
class Reduction:
    """Reduced model with its samples, and the number of tests and seconds that the reduction took."""

    model: ir.Model = field(repr=False)
    samples: list[Sample] = field(repr=False)
    tests: int
    seconds: float
    nodes_before: int
    nodes_after: int

    def __str__(self) -> str:
        plural = "" if self.nodes_after == 1 else "s"
        return (
            f"reduced from {self.nodes_before} to {self.nodes_after} node{plural} "
            f"in {self.tests} tests, {self.seconds:.1f} s"
        )


def reduce(
    model: ir.Model,
    samples: Sequence[Sample],
    fails: Fails,
    *,
    executor: Executor | None = None,
    most_seconds: float = 300.0,
) -> Reduction:
    """Make a model and its samples as small as possible while ``fails`` holds for them.

    ``fails`` leaves what it is given unchanged. What it is asked about, the checker of onnx accepts, and what is kept
    runs on its samples, as far as that is true of the model to begin with. Without samples only the structure is
    reduced.
    Raises UsageError if there is no failure to start from. After ``most_seconds`` the best so far is returned.
    """
    started = time.perf_counter()
    with paused_collector():
        reducer = _Reducer(model, samples, fails, executor or Executor(), started + most_seconds)
        reducer.run()
    case = reducer.case
    seconds = time.perf_counter() - started
    return Reduction(case.model, case.samples, reducer.tests, seconds, reducer.nodes_before, case.nodes)


class _Reducer:
    def __init__(
        self, model: ir.Model, samples: Sequence[Sample], fails: Fails, executor: Executor, deadline: float
    ) -> None:
        self.fails = fails
        self.executor = executor
        self.deadline = deadline
        self.tests = 1
        if not fails(model, list(samples)):
            raise UsageError("there is no failure to reduce", hint="check passes, inputs and tolerance")
        values = record(model, samples, executor) if samples else None
        self.case = FailingCase(copy_model(model), list(samples) if values is not None else [], values or {})
        if samples and values is None and not fails(model, []):
            raise UsageError("the failure cannot be reduced, since the model does not run on its inputs")
        self.validity = Validity(model)
        self.nodes_before = self.case.nodes
        self._known: set[bytes] = set()

    def run(self) -> None:
        self.fewer_samples()
        self.locate()
        for _ in range(_ROUNDS):
            changed = self.fewer_nodes() | self.sweeps(_STRUCTURE)
            if not (changed or self.sweeps(_DATA)) or time.perf_counter() > self.deadline:
                return

    def accept(self, proposal: steps.Proposal, *, refit: bool = True) -> bool:
        """Test a candidate, and go on from there if it fails as the model did."""
        candidate = None if time.perf_counter() > self.deadline else proposal()
        if candidate is not None and self.case.samples and refit:
            candidate = refitted(candidate, self.executor)
        if candidate is None or not self.is_failure(candidate):
            return False
        if self.case.samples and not refit:
            values = record(candidate.model, candidate.samples, self.executor)
            if values is None:
                return False
            candidate = FailingCase(candidate.model, candidate.samples, values)
        self.case = candidate
        return True

    def is_failure(self, candidate: FailingCase) -> bool:
        key = self.validity.key(candidate)
        if key in self._known or not self.validity.holds(candidate.model):
            return False
        self.tests += 1
        if self.fails(candidate.model, candidate.samples):
            return True
        if key is not None:
            self._known.add(key)
        return False

    def fewer_samples(self) -> None:
        """Keep one sample if it fails alone, else as few as possible."""
        whole = self.case
        if len(whole.samples) < 2:
            return

        def only(numbers: Sequence[int]) -> FailingCase:
            values = {name: tuple(arrays[n] for n in numbers) for name, arrays in whole.values.items()}
            return FailingCase(whole.model, [whole.samples[n] for n in numbers], values)

        def test(numbers: Sequence[int]) -> bool:
            return self.accept(lambda: only(numbers), refit=False)

        everything = range(len(whole.samples))
        if not any(test([number]) for number in everything[:8]):
            minimise(list(everything), test)

    def locate(self) -> None:
        """Find the nodes that matter by bisection: first the end, then the beginning of the part that fails."""
        cutter = Cutter(self.case)
        count = len(cutter.nodes)
        if count < 8:
            return
        end = first_bad(0, count, lambda middle: self.judge(cutter, range(middle)))[1]
        first_bad(0, end, lambda size: self.judge(cutter, range(end - size, end)))

    def fewer_nodes(self) -> bool:
        cutter = Cutter(self.case)
        everything = list(range(len(cutter.nodes)))
        return len(minimise(everything, lambda positions: self.cut(cutter, positions))) < len(everything)

    def judge(self, cutter: Cutter, positions: Sequence[int]) -> Mark:
        return BAD if self.cut(cutter, positions) else GOOD

    def cut(self, cutter: Cutter, positions: Sequence[int]) -> bool:
        return self.accept(lambda: cutter.keep(positions), refit=False)

    def sweeps(self, chosen: Sequence[steps.Step]) -> bool:
        return sum(self.sweep(step) for step in chosen) > 0

    def sweep(self, step: steps.Step) -> bool:
        """Try every proposal of a step once; after a success the next one is at the same place."""
        changed, place = False, 0
        proposals = step(self.case)
        while (proposal := next(proposals, None)) is not None:
            if self.accept(proposal):
                changed, proposals = True, islice(step(self.case), place, None)
            else:
                place += 1
        return changed


def minimise(items: list[int], test: Callable[[Sequence[int]], bool]) -> list[int]:
    """Remove chunks, large ones first, while ``test`` holds for the remaining items; at least one item stays."""
    size = len(items) // 2
    while size:
        start = len(items)
        while start > 0:
            end, start = start, max(0, start - size)
            rest = [*items[:start], *items[end:]]
            if rest and test(rest):
                items = rest
        size //= 2
    return items
