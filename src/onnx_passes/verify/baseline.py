"""What a run is measured against: samples, and the results of the model as it came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.verify.compare import compare
from onnx_passes.verify.declarations import ChangesInterface, Declared
from onnx_passes.verify.execute import Engine, ExecutionError, Executor, Key, Sample
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.generate import generate
from onnx_passes.verify.promise import Limits, Promise
from onnx_passes.verify.reference import read_inputs, read_outputs


@dataclass(frozen=True)
class Complaint:
    """What is not as promised: in which sample, how, and in the words that users know."""

    sample: int
    difference: str
    what: str


@dataclass
class Baseline:
    """Samples of inputs with what the model returned for them first, and what it returned last."""

    samples: list[Sample]
    original: list[Sample]
    current: list[Sample]
    engine: Engine
    feeds: frozenset[str]
    key: Key | None
    declared: Declared

    def run(self, executor: Executor, model: ir.Model) -> list[Sample]:
        """Run a model on all samples. Raises ExecutionError."""
        ready = executor.prepare(model, engine=self.engine, feeds=self.feeds)
        results = [ready.run(sample) for sample in self.samples]
        self.key = ready.key
        return results

    def follow(self, change: ChangesInterface, model: ir.Model) -> None:
        """Go on with the interface that a pass has given the model."""
        self.samples = list(map(change.inputs_after, self.samples))
        self.original = list(map(change.outputs_after, self.original))
        self.current = list(map(change.outputs_after, self.current))
        self.feeds = frozenset(name for sample in self.samples for name in sample)
        self.declared = replace(Declared.by(model), excused=self.declared.excused)

    def complaint(
        self, model: ir.Model, results: Sequence[Sample], promise: Promise, first: int = 0
    ) -> Complaint | None:
        """Say what is wrong with results, which belong to the samples from the ``first`` on, and declarations."""
        reference = self.current if promise.is_equality else self.original
        for number, found in enumerate(results, first):
            wrong = promise.broken(compare(reference[number], found))
            if wrong is not None:
                return Complaint(number, wrong.message(), f"{wrong.name} not as expected")
        problem = self.declared.broken_by(model, results[0] if results else {})
        return Complaint(first, problem, problem) if problem else None

    def ran(self, executor: Executor, model: ir.Model) -> bool:
        """Tell whether this is, byte by byte, what ran last."""
        try:
            return self.key is not None and executor.key(model, self.feeds) == self.key
        except (ExecutionError, ModelError):
            return False


def establish(
    model: ir.Model, inputs: Sequence[Any], expect: Sequence[Any], seed: int, executor: Executor, limits: Limits
) -> Baseline:
    """Read or generate samples and run the model as it came. Raises ExecutionError if that is impossible.

    Of generated samples, those that the model cannot take are left out.
    """
    samples = read_inputs(model, inputs) if inputs else _generate(model, seed)
    feeds = frozenset(name for sample in samples for name in sample)
    ready = executor.prepare(model, feeds=feeds)
    baseline = Baseline([], [], [], ready.engine, feeds, ready.key, Declared.by(model))
    refusal: ExecutionError | None = None
    for sample in samples:
        try:
            baseline.current.append(ready.run(sample))
            baseline.samples.append(sample)
        except ExecutionError as error:
            refusal = error
            if inputs:
                break
    if refusal is not None and (inputs or not baseline.samples):
        raise refusal
    baseline.original = baseline.current
    baseline.declared.excuse(model, baseline.current[0])
    if expect:
        baseline.original = read_outputs(model, expect, samples=len(baseline.samples))
        _require_expected(baseline, limits)
    return baseline


def _generate(model: ir.Model, seed: int) -> list[Sample]:
    """Generate inputs; where nobody can, that is an obstacle and no error."""
    try:
        return generate(model, seed=seed)
    except UsageError as error:
        raise ExecutionError(str(error)) from error


def _require_expected(baseline: Baseline, limits: Limits) -> None:
    if len(baseline.original) != len(baseline.samples):
        raise UsageError(
            f"{len(baseline.original)} samples of outputs are expected for {len(baseline.samples)} samples of inputs",
            hint="give as many of one as of the other",
        )
    for number, (expected, found) in enumerate(zip(baseline.original, baseline.current, strict=True)):
        comparison = compare(expected, {name: found[name] for name in expected if name in found})
        if comparison.first is not None and not comparison.within(limits.atol, limits.rtol):
            raise VerificationError(
                f"{comparison.first.name} not as expected before any pass ran: {comparison.first.message()}",
                where=f"sample {number}",
                hint="check that inputs and expected outputs belong to this model",
            )
