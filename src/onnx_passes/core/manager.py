"""The manager runs a plan: one place for order, records, instruments and errors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_passes.core.base import AnalysisResult, Context, Pass, PassResult
from onnx_passes.core.collector import paused_collector
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import ContractError, OnnxPassesError, PassFailedError
from onnx_passes.core.frozen import FrozenWeights, frozen_weights, is_write_to_frozen
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.measure import count_nodes, measure
from onnx_passes.core.plan import Plan, Step, ValidPasses
from onnx_passes.core.records import Application, RunRecord, Status, StepRecord


@dataclass
class Outcome:
    """Model after the run, and the record of the run."""

    model: ir.Model = field(repr=False)
    record: RunRecord


class Manager:
    """Runs plans on models, with instruments."""

    def __init__(self, instruments: Sequence[Instrument] = ()) -> None:
        self.instruments = tuple(instruments)

    def run(self, plan: Plan, model: ir.Model) -> Outcome:
        """Run every step; the first error ends the run."""
        run = _Run(self.instruments, RunRecord(plan.pipeline, measure(model), plan=plan), model)
        with paused_collector(), frozen_weights(model) as run.weights:
            return run.execute(plan)


class _Run:
    def __init__(self, instruments: tuple[Instrument, ...], record: RunRecord, model: ir.Model) -> None:
        self.instruments = instruments
        self.record = record
        self.facts = ValidPasses()
        self.nodes = record.before.nodes
        self.model = model
        self.weights = FrozenWeights()
        self.memory: dict[type, Any] = {}
        self.repeating = 0
        self.changes = 0
        self.found_nothing: dict[Pass, int] = {}
        """Passes that changed nothing in their last run, with the number of changes at that time."""

    def execute(self, plan: Plan) -> Outcome:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            for instrument in self.instruments:
                instrument.before_pipeline(self.record, self.model)
            try:
                self.sequence(plan.steps, self.model, depth=0)
            finally:
                self.record.after = measure(self.model)
                self.record.cpu, self.record.wall = time.process_time() - cpu, time.perf_counter() - wall
            for instrument in reversed(self.instruments):
                instrument.after_pipeline(self.record, self.model)
        except BaseException as error:
            for instrument in reversed(self.instruments):
                instrument.pipeline_failed(self.record, self.model, error)
            raise
        return Outcome(self.model, self.record)

    def sequence(self, steps: Sequence[Step], model: ir.Model, depth: int) -> PassResult:
        modified = False
        last: dict[str, bool] = {}
        for step in steps:
            record = self.open_record(step, depth)
            reason = self.reason_to_skip(step, last)
            if reason is None:
                result = self.step(step, record, model)
                model, changed = result.model, result.modified
                if record.status is Status.DONE:
                    self.facts.after(step.pass_, modified=changed and not step.children)
            else:
                record.status, record.reason, changed = Status.SKIPPED, reason, False
            last[step.name] = changed
            modified |= changed
        return PassResult(model, modified)

    def open_record(self, step: Step, depth: int) -> StepRecord:
        record = StepRecord(
            number=len(self.record.steps) + 1,
            name=step.name,
            text=step.text,
            why=str(step.why),
            depth=depth,
            nodes_before=self.nodes,
            nodes_after=self.nodes,
            has_children=bool(step.children),
        )
        self.record.steps.append(record)
        return record

    def reason_to_skip(self, step: Step, last: dict[str, bool]) -> str | None:
        if step.why.reason == "needed" and step.pass_ in self.facts:
            return "still holds"
        if step.why.reason == "follows" and not last.get(step.why.by, True):
            return f"{step.why.by} changed nothing"
        if self.found_nothing.get(step.pass_) == self.changes:
            return "nothing changed since it ran"
        return None

    def step(self, step: Step, record: StepRecord, model: ir.Model) -> PassResult:
        for instrument in self.instruments:
            veto = instrument.before_pass(record, step, model)
            if veto is not None:
                record.status, record.reason = Status.SKIPPED, veto
                return PassResult(model, modified=False)
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            result = self.call(step, record, model)
        except BaseException as error:
            record.status, record.reason = Status.FAILED, str(error)
            failure = _as_failure(error, step)
            for instrument in reversed(self.instruments):
                instrument.pass_failed(record, step, model, failure)
            if failure is error:
                raise
            raise failure from error
        finally:
            record.cpu, record.wall = time.process_time() - cpu, time.perf_counter() - wall
        self.model = result.model
        record.status, record.modified = Status.DONE, result.modified
        if step.pass_.kind in ("annotation", "transformation"):
            self.changes += result.modified
            if not result.modified:
                self.found_nothing[step.pass_] = self.changes
        if result.modified:
            self.nodes = count_nodes(result.model)
            self.weights.freeze(value.const_value for value in result.model.graph.initializers.values())
        record.nodes_after = self.nodes
        if isinstance(result, AnalysisResult):
            record.result = result.value
        for instrument in reversed(self.instruments):
            instrument.after_pass(record, step, result.model)
        return result

    def call(self, step: Step, record: StepRecord, model: ir.Model) -> PassResult:
        pass_ = step.pass_
        pass_.requires(model)
        result = pass_.run(model, self.context(step, record))
        if not isinstance(result, PassResult):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise PassFailedError(
                f"returned {type(result).__name__}, not a PassResult",
                where=f"pass '{step.name}'",
                hint="return 'PassResult(model, modified=…)' from call",
            )
        pass_.ensures(result.model)
        return result

    def context(self, step: Step, record: StepRecord) -> Context:
        context = Context(record, self.next_number, self.before_rewrite, self.after_rewrite)
        context.skipped, context.memory = step.pass_.skipped_rules, self.memory
        context.shuffle_seed = step.pass_.shuffle_seed
        context.runs_again = self.repeating > 0
        if isinstance(step.pass_, ComposePass):
            repeats = step.pass_.at_most > 1
            context.run_children = lambda model: self.children(step, model, record.depth + 1, repeats=repeats)
        return context

    def children(self, step: Step, model: ir.Model, depth: int, *, repeats: bool) -> PassResult:
        self.repeating += repeats
        try:
            return self.sequence(step.children, model, depth)
        finally:
            self.repeating -= repeats

    def next_number(self) -> int:
        return self.record.applications + 1

    def before_rewrite(self, application: Application) -> str | None:
        for instrument in self.instruments:
            veto = instrument.before_rewrite(application)
            if veto is not None:
                application.step.stopped = True
                return veto
        return None

    def after_rewrite(self, application: Application) -> None:
        self.record.applications = application.number
        application.step.applications += 1
        for instrument in reversed(self.instruments):
            instrument.after_rewrite(application)


def _as_failure(error: BaseException, step: Step) -> BaseException:
    """Add the pass to an exception of its code; keep our own errors, broken invariants and interrupts."""
    if isinstance(error, OnnxPassesError):
        error.where = error.where or f"pass '{step.name}'"
        return error
    if isinstance(error, ir.passes.InvariantError) or not isinstance(error, Exception):
        return error
    if is_write_to_frozen(error):
        return ContractError(
            f"writes into a weight of the model: {error}",
            where=f"pass '{step.name}'",
            hint="models share their tensors: assign a new tensor instead",
        )
    return PassFailedError(
        f"{type(error).__name__}: {error}",
        where=f"pass '{step.name}'",
        hint="run with --debug for the traceback",
    )
