"""Judges that run models: results compared with those of the original, or metrics held to their ranges."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import OnnxPassesError, UsageError
from onnx_passes.debug.judges import Judge
from onnx_passes.verify.blame.search import GOOD, Verdict
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.promise import DEFAULT, Limits, Promise, claim_of, limits_of
from onnx_passes.verify.metrics.metrics import accumulator, find_metric, is_elementwise
from onnx_passes.verify.metrics.ranges import MetricRange, accepted, range_text
from onnx_passes.verify.run.execute import Engine, Executable, ExecutionError, Executor, Sample
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.fitting import run_samples
from onnx_passes.verify.samples.reference import read_outputs
from onnx_passes.verify.samples.sources import listed


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
        inputs, expect = listed(inputs), listed(expect)
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
        with _of_original():
            ready = self.executor.prepare(original)
            self._samples, results = run_samples(ready, original, self.inputs, self.seed)
        self._engine, self._measure = ready.engine, results
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
        claims = [claim for pass_ in passes if (claim := claim_of(pass_)).kind != "equality"]
        return Limits.widest([limits_of(claim, self.default) for claim in claims]) if claims else None


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
        inputs, expect = listed(inputs), listed(expect)
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
        with _of_original():
            ready = self.executor.prepare(original)
            if self.inputs:
                self._data = Dataset.read(original, self.inputs, self.expect)
            else:
                self._data = Dataset.of(original, run_samples(ready, original, (), self.seed)[0])
        self._engine = ready.engine
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


@contextmanager
def _of_original() -> Generator[None]:
    """Say that no model can be judged by its results where the original one cannot be run."""
    try:
        yield
    except ExecutionError as error:
        hint = "judge models by a command instead"
        raise UsageError(f"the original model cannot be run: {error}", hint=hint) from error


def _difference(expected: Sequence[Sample], found: Sequence[Sample], limits: Limits | None) -> str:
    promise = Promise(Claim("equality" if limits is None else "tolerance"), limits)
    for number, (old, new) in enumerate(zip(expected, found, strict=True)):
        wrong = promise.broken(compare(old, new))
        if wrong is not None:
            return f"{promise.describe(wrong)} (sample {number})"
    return ""


def _verdict(reason: str) -> Verdict:
    return Verdict("bad", reason) if reason else GOOD
