"""Judges that run models: results compared with those of the original, or metrics held to their ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.debug.judges import GOOD, Judge, Verdict
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.promise import DEFAULT, Limits, Promise, limits_of
from onnx_passes.verify.metrics.metrics import accumulator, find_metric, is_elementwise
from onnx_passes.verify.metrics.ranges import MetricRange, accepted, range_text
from onnx_passes.verify.run.execute import Engine, Executable, ExecutionError, Executor, Sample
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.fitting import dynamic_axes, run_generated
from onnx_passes.verify.samples.generate import generate
from onnx_passes.verify.samples.reference import read_inputs, read_outputs


class ByResults(Judge):
    """Run the model and compare with the original one, or with what is expected.

    Without ``limits``, results must be equal bit by bit as long as all passes promise that, and else within the
    tolerance that they promise or the ``default`` one.
    """

    def __init__(
        self,
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        limits: Limits | None = None,
        default: Limits | None = None,
        executor: Executor | None = None,
    ) -> None:
        if expect and not inputs:
            raise UsageError("outputs are expected of no inputs", hint="give the inputs that they belong to")
        self.inputs, self.expect, self.seed = inputs, expect, seed
        self.limits, self.default = limits, default or DEFAULT
        self.executor = executor or Executor()
        self._engine: Engine = "onnxruntime"
        self._samples: list[Sample] = []
        self._measure: list[Sample] = []

    def start(self, original: ir.Model) -> Verdict:
        """Run the original model; every other one is measured against its results, or against what is expected."""
        ready = _prepare_original(self.executor, original)
        self._engine = ready.engine
        if self.inputs:
            self._samples = read_inputs(original, self.inputs)
            self._measure = results = _run_given(ready, self._samples)
        else:
            self._samples, self._measure = _run_generated(ready, original, self.seed)
            results = self._measure
        if self.expect:
            self._measure = read_outputs(original, self.expect, samples=len(self._samples))
            if len(self._measure) != len(self._samples):
                raise UsageError(
                    f"{len(self._measure)} samples of outputs are expected for {len(self._samples)} of inputs",
                    hint="give as many of one as of the other",
                )
        return _verdict(_difference(self._measure, results, self.limits or self.default))

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model."""
        try:
            results = self._run(model)
        except OnnxPassesError as error:
            return Verdict("bad", f"the model no longer runs: {error}")
        return _verdict(_difference(self._measure, results, self._limits(passes)))

    def is_harmless(self, before: ir.Model, after: ir.Model, passes: Sequence[Pass]) -> bool:
        """Tell whether two models agree within the limits, though one of them is too far from the original."""
        try:
            return not _difference(self._run(before), self._run(after), self._limits(passes))
        except OnnxPassesError:
            return False

    def _run(self, model: ir.Model) -> list[Sample]:
        ready = self.executor.prepare(model, engine=self._engine)
        return [ready.run(sample) for sample in self._samples]

    def _limits(self, passes: Sequence[Pass]) -> Limits | None:
        """Return how far results may be from the original after some passes, ``None`` for not at all."""
        if self.limits is not None or self.expect:
            return self.limits or self.default
        given = [limits for pass_ in passes if (limits := _promised(pass_, self.default)) is not None]
        if not given:
            return None
        return Limits.widest(given)


class ByMetrics(Judge):
    """Measure metrics, by name or ``module:function``, and hold them to their accepted ranges.

    Results are held against what is expected or, where nothing is, against those of the original model. Errors of
    numbers take in all outputs, any other metric the first one that something is expected of.
    """

    def __init__(
        self,
        ranges: Mapping[str, MetricRange],
        *,
        inputs: Sequence[Any] = (),
        expect: Sequence[Any] = (),
        seed: int = 0,
        executor: Executor | None = None,
        base: Path | None = None,
    ) -> None:
        if expect and not inputs:
            raise UsageError("outputs are expected of no inputs", hint="give the inputs that they belong to")
        self.ranges = dict(ranges)
        self.inputs, self.expect, self.seed = inputs, expect, seed
        self.executor = executor or Executor()
        self._metrics = {name: find_metric(name, base=base) for name in ranges}
        self._engine: Engine = "onnxruntime"
        self._original: list[Sample] = []

    def start(self, original: ir.Model) -> Verdict:
        """Read the data and measure the original model."""
        ready = _prepare_original(self.executor, original)
        self._engine = ready.engine
        if self.inputs:
            self._data = Dataset.read(original, self.inputs, self.expect)
        else:
            self._data = Dataset.of(original, _run_generated(ready, original, self.seed)[0])
        self._original = [batch.expected or batch.run(ready) for batch in self._data]
        return self._measure(ready)

    def judge(self, model: ir.Model, passes: Sequence[Pass]) -> Verdict:
        """Judge a model; one that can no longer be measured is bad."""
        try:
            return self._measure(self.executor.prepare(model, engine=self._engine))
        except OnnxPassesError as error:
            return Verdict("bad", f"the model can no longer be measured: {error}")

    def _measure(self, ready: Executable) -> Verdict:
        states = {name: accumulator(metric) for name, metric in self._metrics.items()}
        for batch, expected in zip(self._data, self._original, strict=True):
            found = batch.run(ready)
            for name, state in states.items():
                outputs = list(expected) if is_elementwise(self._metrics[name]) else list(expected)[:1]
                for output in outputs:
                    if output not in found:
                        return Verdict("bad", f"the output '{output}' is missing")
                    state.update(expected[output], found[output])
        for name, state in states.items():
            if not accepted(state.value(), self.ranges[name]):
                return Verdict("bad", f"{name} is {state.value():g}, accepted is {range_text(self.ranges[name])}")
        return GOOD


def _prepare_original(executor: Executor, model: ir.Model) -> Executable:
    try:
        return executor.prepare(model)
    except ExecutionError as error:
        raise _not_runnable(error) from error


def _run_given(ready: Executable, samples: Sequence[Sample]) -> list[Sample]:
    try:
        return [ready.run(sample) for sample in samples]
    except ExecutionError as error:
        raise _not_runnable(error) from error


def _run_generated(ready: Executable, model: ir.Model, seed: int) -> tuple[list[Sample], list[Sample]]:
    """Generate samples and run them; those that the original model cannot take are left out."""
    try:
        return run_generated(ready, generate(model, seed=seed, thorough=True), dynamic_axes(model))
    except ExecutionError as error:
        raise _not_runnable(error) from error


def _not_runnable(error: OnnxPassesError) -> UsageError:
    return UsageError(f"the original model cannot be run: {error}", hint="judge models by a command instead")


def _difference(expected: Sequence[Sample], found: Sequence[Sample], limits: Limits | None) -> str:
    promise = Promise(Claim("equality" if limits is None else "tolerance"), limits)
    for number, (old, new) in enumerate(zip(expected, found, strict=True)):
        wrong = promise.broken(compare(old, new))
        if wrong is not None:
            return f"{promise.describe(wrong)} (sample {number})"
    return ""


def _verdict(reason: str) -> Verdict:
    return Verdict("bad", reason) if reason else GOOD


def _promised(pass_: Pass, default: Limits) -> Limits | None:
    """Return the tolerance of a pass, ``None`` if it keeps results bit by bit."""
    for claim in pass_.claims:
        if claim.kind == "equality":
            return None
        if claim.kind == "tolerance":
            return limits_of(claim, default)
    return None if pass_.kind in ("analysis", "annotation") else default
