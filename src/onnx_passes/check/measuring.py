"""Instruments that measure a model before a run and after each pass: metrics on a dataset, time in ONNX Runtime."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import onnx_ir as ir

from onnx_passes.check.baseline import Narrowing
from onnx_passes.check.verification import EXPLICIT, Mode
from onnx_passes.core.errors import ModelError, OnnxPassesError, UsageError
from onnx_passes.core.evidence import Evidence, Finding
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import InferenceTime, RunRecord, StepRecord
from onnx_passes.graph.hashing.fingerprint import Fingerprinter
from onnx_passes.verify.comparison.declarations import ChangesInterface, InterfaceHistory
from onnx_passes.verify.failure import Failure, VerificationError, failed_step
from onnx_passes.verify.metrics.accumulators import Metric, require_named
from onnx_passes.verify.metrics.metrics import (
    ANY,
    MetricRange,
    Originals,
    States,
    accepted,
    find_metric,
    measure,
    metric_name,
    needs_originals,
    parse_ranges,
    range_text,
    run_now,
)
from onnx_passes.verify.metrics.shards import Spread
from onnx_passes.verify.run.execute import Engine, Executable, ExecutionError, Executor, Sample
from onnx_passes.verify.run.timing import SECONDS, TimedModel, time_in_turns
from onnx_passes.verify.samples.coverage import run_generated
from onnx_passes.verify.samples.dataset import Batch, Dataset, DatasetAt
from onnx_passes.verify.samples.generate import Sampler, Sampling, generate
from onnx_passes.verify.samples.reference import Source, read_inputs
from onnx_passes.verify.samples.sizes import dimension_key, dynamic_dimensions
from onnx_passes.verify.samples.sources import listed, stamps_of
from onnx_passes.verify.samples.tables import Stamp, stamp_of
from onnx_passes.workers.cluster import Cluster


class Measuring(Instrument):
    """Measure metrics before the pipeline and after every pass that changed the structure of the model.

    ``metrics`` maps names, import paths ``module:function`` or functions to the accepted range ``(min, max)``, either
    end ``None`` if open; ``None`` for a range only measures. A function is called by the names of its parameters,
    ``expected`` and ``found``, in any order. The ``dataset`` is run in batches; without one, a few samples are
    generated. Results are held against what is expected (``expect``: whole outputs, or class labels) and, where nothing
    is, against those of the original model. Errors of numbers take in all outputs, any other metric the first one that
    something is expected of. A pass that promises metrics is held to its own ranges as well.

    Workers of a ``cluster`` share the dataset among them; the values are the same, to the last bit.
    """

    def __init__(
        self,
        metrics: Mapping[str, MetricRange | None] | Mapping[Metric, MetricRange | None] | None = None,
        *,
        dataset: Sequence[Source] = (),
        expect: Sequence[Source] = (),
        batch: int | None = None,
        seed: int = 0,
        mode: Mode = "each",
        executor: Executor | None = None,
        base: Path | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        dataset, expect = listed(dataset), listed(expect)
        if expect and not dataset:
            raise UsageError("outputs are expected of no dataset", hint="give the inputs that they belong to")
        if batch is not None and batch < 1:
            raise UsageError(f"a batch of {batch} rows holds nothing", hint="give 1 or more")
        self.dataset = dataset
        self.expect = expect
        self.batch = batch
        self.seed = seed
        self.mode = mode
        self.executor = executor or Executor()
        self.base = base
        self.cluster = cluster
        self.ranges: dict[str, MetricRange] = {}
        self._metrics: dict[str, Metric] = {}
        for metric, limits in (metrics or {}).items():
            self._add(metric, limits)
        self._identity = Fingerprinter.within_run()
        self._reset()

    def also(self, plan: Plan) -> Measuring:
        """Also measure the metrics that the passes of this plan claim."""
        names = [name for name in promised(plan) if name not in self.ranges]
        self._metrics = {name: self._metrics[name] for name in self.ranges}
        self._metrics |= {name: find_metric(name, base=self.base) for name in names}
        return self

    def _add(self, metric: str | Metric, limits: MetricRange | None) -> None:
        name = metric_name(metric)
        given = ANY if limits is None else parse_ranges({name: limits}, where="metrics")[name]
        if name not in self._metrics:
            self._metrics[name] = self._found(metric)
        if given != ANY or name not in self.ranges:
            self.ranges[name] = given

    def _found(self, metric: str | Metric) -> Metric:
        if isinstance(metric, str):
            return find_metric(metric, base=self.base)
        require_named(metric)
        return metric

    def _reset(self) -> None:
        self._obstacle = ""
        self._state = b""
        self._latest: dict[str, float] = {}
        self._baseline: dict[str, float] = {}
        self._pending: list[tuple[StepRecord, Step]] = []
        self._stamps: dict[str, Stamp] = {}
        self._interface = InterfaceHistory()

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Measure the original model; later values are compared with these."""
        self._reset()
        if not self._metrics:
            return
        try:
            self._start(model, Narrowing(model, run.plan))
        except (ExecutionError, ModelError) as error:
            self._obstacle = str(error)
            run.metrics_note = f"not measured: {error}"
            self._refuse_unmeasured()
            return
        run.metrics = self._baseline = self._latest
        run.metrics_note = f"measured {self._described}"
        for name, limits in self.ranges.items():
            if limits != ANY and not accepted(self._baseline[name], limits):
                raise VerificationError(
                    f"{_told(name, self._baseline[name], limits)}, before any pass ran",
                    hint=f"{run.metrics_note}; check that these data belong to the model",
                )

    def _refuse_unmeasured(self) -> None:
        """Raise VerificationError if the run asks for a range: a metric that nobody measured is not in it."""
        for name, limits in self.ranges.items():
            if limits != ANY:
                raise VerificationError(
                    f"{name} cannot be measured, accepted is {range_text(limits)}: {self._obstacle}",
                    hint="leave the range out to run without it",
                )

    def _start(self, model: ir.Model, narrowing: Narrowing) -> None:
        self._stamps = stamps_of([*self.dataset, *self.expect])
        given = Dataset.read(narrowing.model, self.dataset, self.expect, batch=self.batch) if self.dataset else None
        self._state = self._identity.structural(model)
        self._interface = InterfaceHistory(tuple(str(value.name) for value in model.graph.outputs))
        ready = self.executor.prepare(model)
        self._engine: Engine = ready.engine
        self._data = given or self._generate(narrowing, ready)
        self._originals = Originals(ready)
        self._spread = self._spread_over(given, model, narrowing.model)
        if self._spread is not None:
            self._latest = self._values_of(model)
        else:
            compared = needs_originals(self._metrics, has_expected=self._data.has_expected)
            self._latest = self._run(self._originals.results if compared else lambda _, batch: batch.run(ready))
        against = "what is expected" if self._data.has_expected else "the original model"
        origin = "" if self.dataset else "generated "
        self._described = f"on {self._data.count} {origin}samples ({ready.engine}) against {against}"

    def _spread_over(self, given: Dataset | None, original: ir.Model, narrowed: ir.Model) -> Spread | None:
        """Let workers measure, if there are any and there is something to share out."""
        if self.cluster is None or given is None or len(given) < 2 or self._engine != "onnxruntime":
            return None
        data = DatasetAt.of(narrowed, self.dataset, self.expect, self.batch, self.cluster.store)
        return Spread(self.cluster, self.executor, original, data, self._metrics)

    def _generate(self, narrowing: Narrowing, ready: Executable) -> Dataset:
        model = narrowing.model
        try:
            draft = Sampler(model, Sampling(self.seed)).draft(thorough=False)
        except UsageError as error:
            raise ExecutionError(str(error)) from error
        taken, _ = run_generated(ready, draft, narrowing.drawn)
        return Dataset.of(model, taken)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Measure what a pass made of the model, unless it left the structure alone.

        A sequence is its members, and held to what it promises itself.
        """
        claims = _claims(step)
        if not (record.modified or step.name == EXPLICIT) or (record.has_children and not claims):
            return
        unmeasured = [name for name in claims if name not in self._baseline]
        if unmeasured:
            why = self._obstacle or "the run does not ask for it"
            record.notes.append(f"promises {', '.join(unmeasured)}, which is not measured: {why}")
        if not self._baseline:
            return
        self._pending.append((record, step))
        if record.modified and isinstance(step.pass_, ChangesInterface):
            # A pass tells of its last call, and may be called again.
            self._interface = self._interface.then(copy.copy(step.pass_))
        if self.mode == "each" or step.name == EXPLICIT:
            self._measure_pending(model)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Measure the result of the run, if the last steps were not measured one by one."""
        if self._pending:
            self._measure_pending(model)
        for name, stamp in self._stamps.items():
            if stamp.is_known and stamp != stamp_of(name):
                raise UsageError("the data changed while the model was measured on them", where=name, hint="run again")

    def _measure_pending(self, model: ir.Model) -> None:
        """Measure if the structure is new, and hold all steps since the last time to their ranges."""
        pending, self._pending = self._pending, []
        members = [(record, step) for record, step in pending if not record.has_children]
        values = self._latest
        if members and self._is_new_structure(model):
            values = self._measure_step(*members[-1], model)
        else:
            pending = [(record, step) for record, step in pending if record.has_children]
        for record, step in pending:
            for name, limits in _claims(step).items():
                self._require(name, limits, values, record, step, "the pass")
        self._latest = values

    def _measure_step(self, record: StepRecord, step: Step, model: ir.Model) -> dict[str, float]:
        started = time.perf_counter()
        try:
            values = self._values_of(model)
        except (ExecutionError, UsageError) as error:
            what = f"the model can no longer be measured: {error}"
            failed = failed_step(record, step, Failure(record.number, step.text, "metric", what, facts={}))
            raise failed from failed.__cause__
        record.metrics = values
        for name, limits in self.ranges.items():
            self._require(name, limits, values, record, step, "the run")
        record.evidence = record.evidence or Evidence(
            str(Finding("metric", "sampled")),
            f"metric({', '.join(values)})",
            samples=self._data.count,
            engine=self._engine,
            seconds=time.perf_counter() - started,
        )
        return values

    def _is_new_structure(self, model: ir.Model) -> bool:
        before = self._state
        try:
            self._state = self._identity.structural(model)
        except ModelError:
            # A graph with a cycle has no digest; running it shows what is wrong.
            return True
        return before != self._state

    def _values_of(self, model: ir.Model) -> dict[str, float]:
        if self._spread is not None:
            return _numbers(self._spread.measure(model, self._interface))
        return self._run(run_now(self.executor.prepare(model, engine=self._engine), self._interface))

    def _run(self, run: Callable[[int, Batch], Sample]) -> dict[str, float]:
        return _numbers(measure(self._metrics, self._data.batches(), run, self._originals, self._interface))

    def _require(
        self, name: str, limits: MetricRange, values: Mapping[str, float], record: StepRecord, step: Step, by: str
    ) -> None:
        if name not in values or limits == ANY or accepted(values[name], limits):
            return
        facts = {
            "metric": f"{name} {number_text(values[name])}, accepted by {by}: {range_text(limits)}",
            "before": "" if record.has_children else number_text(self._latest[name]),
            "baseline": f"{number_text(self._baseline[name])} before any pass",
            "measured": self._described,
        }
        claim = f"metric({name}={list(limits)})"
        what = _told(name, values[name], limits)
        failed = failed_step(record, step, Failure(record.number, step.text, claim, what, facts=facts))
        raise failed from failed.__cause__


class MeasuringAlone(Measuring):
    """Measure what a pass promises that is called alone, of which nothing is known before it begins."""

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Keep the record until the pass is known."""
        self._record = run

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Measure the original model, if the pass claims metrics."""
        self.also(Plan((step,), step.text))
        super().before_pipeline(self._record, model)
        return None


def promised(plan: Plan) -> dict[str, MetricRange]:
    """Return the metrics that passes of a plan promise, with the range of the last one."""
    return {name: limits for _, step in plan.walk() for name, limits in _claims(step).items()}


def number_text(value: float) -> str:
    """Print the value of a metric."""
    return f"{value:.6g}"


def _claims(step: Step) -> dict[str, MetricRange]:
    claims = (claim.parameters for claim in step.pass_.claims if claim.kind == "metric")
    return {
        metric_name(name): limits for given in claims for name, limits in parse_ranges(given, where=step.name).items()
    }


def _numbers(states: States) -> dict[str, float]:
    return {name: state.value() for name, state in states.items()}


def _told(name: str, value: float, limits: MetricRange) -> str:
    return f"{name} is {number_text(value)}, accepted is {range_text(limits)}"


_USUAL = {1: 128, 32: 224, 512: 16000}
"""Sizes of dynamic dimensions where time is measured, by the least ones: tokens, pixels, values of a signal."""


class Speed(Instrument):
    """Time a model before the first pass and after the last one, in turns, as ONNX Runtime runs it by default.

    It is run on the first of the ``inputs``, or on generated ones. What prevents that is noted, and harms nothing.
    """

    def __init__(
        self, *, inputs: Sequence[Source] = (), seconds: float = SECONDS, executor: Executor | None = None
    ) -> None:
        self.inputs, self.seconds, self.executor = listed(inputs), seconds, executor
        self._before: TimedModel | None = None
        self._sample: Sample = {}
        self._changes: list[ChangesInterface] = []

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Prepare the original model for timing."""
        self._before, self._changes = None, []
        narrowing = Narrowing(model, run.plan)
        try:
            if self.inputs:
                self._sample = narrowing.read(read_inputs(narrowing.model, self.inputs)[0])
            else:
                self._sample = narrowing.drawn(timed_sample(narrowing.model, executor=self.executor))
            self._before = TimedModel(model, self._sample, self.executor)
        except (ExecutionError, ModelError, UsageError) as error:
            run.inference = InferenceTime(why=_reason(error))

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Note how the interface changes."""
        if record.modified and isinstance(step.pass_, ChangesInterface):
            # A pass tells of its last call, and may be called again.
            self._changes.append(copy.copy(step.pass_))

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Time both models."""
        if self._before is None:
            return
        sample = self._sample
        for change in self._changes:
            sample = change.inputs_after(sample)
        try:
            before, after = time_in_turns([self._before, TimedModel(model, sample, self.executor)], self.seconds)
        except (ExecutionError, ModelError, UsageError) as error:
            run.inference = InferenceTime(why=_reason(error))
            return
        run.inference = InferenceTime(before.least, after.least, before.runs, shapes_text(sample))


def timed_sample(
    model: ir.Model, *, dimensions: Mapping[str, int] | None = None, executor: Executor | None = None
) -> Sample:
    """Generate inputs of the size that a model usually gets, or of smaller ones where it does not take these."""
    given = dict(dimensions or {})
    sizes = {name: size for name, size in usual_sizes(model).items() if name not in given} | given
    ready = (executor or Executor()).prepare(model, engine="onnxruntime")
    try:
        sample = generate(model, samples=1, dimensions=sizes)[0]
        ready.run(sample)
    except ExecutionError:
        taken, _ = run_generated(ready, Sampler(model, Sampling(sizes=given)).draft(thorough=False))
        sample = max(taken, key=lambda one: sum(array.size for array in one.values()))
    return sample


def usual_sizes(model: ir.Model) -> dict[str, int]:
    """Return sizes for the dynamic dimensions of inputs; one for those that come first, which count samples."""
    graph = model.graph
    inputs = {str(v.name): v for v in graph.inputs if str(v.name) not in graph.initializers and v.shape is not None}
    first = {key for name, value in inputs.items() for key in _keys(name, value)[:1]}
    # What is named after others, as 'past + 1', follows from them.
    found = {name: least for name, least in dynamic_dimensions(model, inputs).items() if not re.search("[+*-]", name)}
    return {name: 1 if name in first else _USUAL[least] for name, least in found.items()}


def _keys(name: str, value: ir.Value) -> list[str | None]:
    return [dimension_key(name, axis, dim) for axis, dim in enumerate(cast("ir.Shape", value.shape))]


def shapes_text(sample: Sample) -> str:
    """Name the inputs with their shapes."""
    return ", ".join(f"{name}[{','.join(map(str, array.shape))}]" for name, array in sample.items())


def _reason(error: OnnxPassesError) -> str:
    return f"{error.where}: {error.what}" if error.where else error.what
