"""What a run is measured against: samples, and the results of the model as it came."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.verify.compare import compare
from onnx_passes.verify.declarations import ChangesInterface, Declared
from onnx_passes.verify.execute import Engine, ExecutionError, Executor, Key, Sample
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.fitting import dynamic_axes, run_generated
from onnx_passes.verify.generate import generate
from onnx_passes.verify.promise import Limits, Promise
from onnx_passes.verify.reference import read_inputs, read_outputs
from onnx_passes.verify.unreached import Unreached

_SMALL = 1024
"""Weights of no more bytes than this are copied by the engine in any case."""


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
    unreached: Unreached | None = None

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
        if self.unreached is not None:
            self.unreached.follow(self.samples)
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
        if problem:
            return Complaint(first, problem, problem)
        unseen = None if self.unreached is None else self.unreached.complaint(model, promise)
        return None if unseen is None else Complaint(*unseen)

    def accept(self, results: list[Sample], *, as_original: bool) -> None:
        """Go on from results that are as promised."""
        self.current = results
        self.original = results if as_original else self.original
        if self.unreached is not None:
            self.unreached.accept(as_original=as_original)

    def ran(self, executor: Executor, model: ir.Model) -> bool:
        """Tell whether this is, byte by byte, what ran last."""
        return _is_executed(self.key, executor, model, self.feeds)


class Start:
    """A model as it came, ready to run; it need not run at all if no step changes it.

    Raises ExecutionError if it cannot be made ready.
    """

    def __init__(self, model: ir.Model, inputs: Sequence[Any], seed: int, executor: Executor) -> None:
        self._samples = read_inputs(model, inputs) if inputs else _generate(model, seed)
        self._axes = None if inputs else dynamic_axes(model)
        self._feeds = frozenset(name for sample in self._samples for name in sample)
        self._ready = executor.prepare(model, feeds=self._feeds)
        self._declared = Declared.by(model)
        self._weights = [(t, _checksum(t)) for v in model.graph.initializers.values() if _is_shared(t := v.const_value)]

    def is_unchanged(self, executor: Executor, model: ir.Model) -> bool:
        """Tell whether a model is, byte by byte, the one that is ready to run."""
        return _is_executed(self._ready.key, executor, model, self._feeds)

    def establish(self) -> Baseline:
        """Run the model as it came. Raises ExecutionError if that is impossible.

        Of generated samples, those that the model cannot take are left out, or cut where it takes none.
        """
        for tensor, checksum in self._weights:
            if _checksum(tensor) != checksum:
                raise VerificationError(
                    f"the elements of weight '{tensor.name}' were changed in place",
                    hint="models share their tensors: a pass must put a new one in the place of the old",
                )
        if self._axes is None:
            samples, results = self._ready.run_each(self._samples, all_must_run=True)
        else:
            samples, results = run_generated(self._ready, self._samples, self._axes)
        self._declared.excuse(results[0])
        return Baseline(samples, results, results, self._ready.engine, self._feeds, self._ready.key, self._declared)


def establish(
    model: ir.Model, inputs: Sequence[Any], expect: Sequence[Any], seed: int, executor: Executor, limits: Limits
) -> Baseline:
    """Read or generate samples and run the model as it came. Raises ExecutionError if that is impossible."""
    baseline = Start(model, inputs, seed, executor).establish()
    if expect:
        baseline.original = read_outputs(model, expect, samples=len(baseline.samples))
        _require_expected(baseline, limits)
    return baseline


def _is_executed(key: Key | None, executor: Executor, model: ir.Model, feeds: frozenset[str]) -> bool:
    try:
        return key is not None and executor.key(model, feeds) == key
    except (ExecutionError, ModelError):
        return False


def _is_shared(tensor: ir.TensorProtocol | None) -> TypeGuard[ir.TensorProtocol]:
    """Tell whether the engine reads a weight where it lies, or may do so."""
    return tensor is not None and tensor.dtype is not ir.DataType.STRING and tensor.nbytes > _SMALL


def _checksum(tensor: ir.TensorProtocol) -> int:
    return zlib.crc32(np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data)


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
