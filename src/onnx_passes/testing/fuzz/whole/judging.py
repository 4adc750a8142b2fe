"""Judge the result of a pipeline in ONNX Runtime and in the reference evaluator of onnx."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

import onnx_passes.passes  # noqa: F401  # pyright: ignore[reportUnusedImport] - teaches the registry foreign rules
from onnx_passes.core.base import Context, Pass
from onnx_passes.core.build import collect
from onnx_passes.core.errors import BudgetError, ContractError, OnnxPassesError, PassFailedError, RewriteError
from onnx_passes.core.instruments import Instrument, Limit
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, plan
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.randomness import draws_in
from onnx_passes.passes.cleanup.remove_initializers_from_inputs import RemoveInitializersFromInputs
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.testing.fuzz.case import Arrays, Case
from onnx_passes.testing.fuzz.difference import Conditions, difference, tensors_in
from onnx_passes.testing.fuzz.feeds import Feed, feeds_of
from onnx_passes.testing.fuzz.judge import (
    CaseVerdict,
    Wrong,
    check,
    compare_declared,
    compare_interfaces,
    interior,
    printed,
    sentence,
    violation_inside,
)
from onnx_passes.testing.fuzz.report import Kind
from onnx_passes.testing.fuzz.undefined import reads_unwritten_memory
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits, Promise, promise_of
from onnx_passes.verify.comparison.noise import rounding_bounds
from onnx_passes.verify.run.execute import ExecutionError, Executor

DISPUTED = "the engines disagree on the original model"


@dataclass(frozen=True)
class EngineResults:
    """Results of a model on some data, from both engines."""

    feed: Feed
    values: Arrays
    seconded: Arrays | None = None


@dataclass(frozen=True)
class CombinedClaim:
    """Combined claim of the passes that changed the model."""

    promise: Promise

    @property
    def limits(self) -> Limits | None:
        """Return the tolerance, None for equality."""
        return None if self.promise.is_equality else self.promise.limits

    @property
    def fast_math(self) -> frozenset[str]:
        """Return the flags of the exceptions."""
        return self.promise.ignores


class Trail(Instrument):
    """Records the passes that changed the model, and the last rewrite with the values that it replaced."""

    def __init__(self) -> None:
        self.changed: list[Pass] = []
        self.last: Pass | None = None
        self.application: Application | None = None
        self.replaced: list[str] = []

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Record a pass that is not a sequence."""
        if not record.has_children:
            self.last = step.pass_
            if record.modified:
                self.changed.append(step.pass_)

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Record the innermost pass that failed."""
        if not record.has_children:
            self.last = step.pass_

    def after_rewrite(self, application: Application) -> None:
        """Record a rewrite."""
        if application.owner is not None and application.owner not in self.changed:
            # Rules of several passes may run together: the claim of each is that of its own pass.
            self.changed.append(application.owner)
        self.application = application
        self.replaced = [str(old.name) for old, _ in application.replaced]


class PipelineJudge:
    """Judges models under a pipeline; ``entering`` is called before the passes run."""

    def __init__(self, executor: Executor, entering: Callable[[], None] = lambda: None) -> None:
        self._executor = executor
        self._entering = entering

    def __call__(self, case: Case, pipeline: str, *, blame: bool = False) -> CaseVerdict:
        """Judge one model under one pipeline; with ``blame`` a finding names the wrong rule."""
        planned = plan(pipeline)
        try:
            proto = onnx.ModelProto.FromString(case.model)
            check(proto)
            before = ir.from_proto(proto)
            _drop_defaults(before, planned)
            runs = list(self.runs_of(before, case))
        except (ExecutionError, OnnxPassesError, onnx.checker.ValidationError, ir.serde.SerdeError) as error:
            return CaseVerdict("skipped", message=str(error))
        undisputed = [run for run in runs if run.seconded is None or agree(_outputs(before, run.values), run.seconded)]
        if not undisputed:
            return CaseVerdict("skipped", message=DISPUTED if runs else "no data fit")
        self._entering()
        return self.verdict_on(before, undisputed, planned, blame=blame)

    def verdict_on(self, before: ir.Model, runs: Sequence[EngineResults], planned: Plan, *, blame: bool) -> CaseVerdict:
        """Apply a pipeline to a copy of a model, and judge the result."""
        model, trail = copy_model(before), Trail()
        try:
            model = self._apply(planned, model, trail)
            terms = CombinedClaim(promise_of(trail.changed, DEFAULT))
            self._judge(before, model, runs, terms, planned)
            self._require_rest(trail, model)
        except Wrong as wrong:
            if not self._is_repeatable(wrong, before, runs):
                return CaseVerdict("skipped", message="the model does not compute the same twice")
            rule = self._culprit(wrong, before, runs, trail, planned) if blame else ""
            return CaseVerdict("finding", str(wrong.kind), wrong.message, printed(model), wrong.feed, rule)
        except OnnxPassesError as refusal:
            # Some passes refuse models that lack a certain form.
            return CaseVerdict("no match", message=str(refusal))
        return CaseVerdict("fine" if any(pass_.kind == "transformation" for pass_ in trail.changed) else "no match")

    def _is_repeatable(self, wrong: Wrong, before: ir.Model, runs: Sequence[EngineResults]) -> bool:
        """Return whether the model itself computes the same with its values elsewhere in memory."""
        run = next((run for run in runs if run.feed.name == wrong.feed), None)
        if run is None:
            return True
        again = self._executor.prepare(before, engine="onnxruntime").run(run.feed.arrays)
        return compare(_outputs(before, run.values), again).equal

    def _culprit(
        self, wrong: Wrong, before: ir.Model, runs: Sequence[EngineResults], trail: Trail, planned: Plan
    ) -> str:
        """Return the pass, and the rule if there is one, after which results violate the claim."""
        if wrong.kind in (Kind.CRASH, Kind.HANG) or not trail.changed:
            return "" if trail.last is None else trail.last.name
        seen = [run for run in runs if run.feed.name == wrong.feed] or runs
        first = self._first_bad(before, planned, seen, CombinedClaim(promise_of(trail.changed, DEFAULT)))
        if first is None or first[1].application is None:
            return trail.changed[-1].name
        application = first[1].application
        owner = application.step.name if application.owner is None else application.owner.name
        return f"{owner}/{application.rule}"

    def runs_of(self, model: ir.Model, case: Case) -> Iterator[EngineResults]:
        """Run a model in both engines on all data that it accepts."""
        if draws_in(model):
            return
        ready = self._executor.prepare(model, also=list(interior(model)), engine="onnxruntime")
        reference = NumpyReference(model)
        for feed in feeds_of(case):
            try:
                values = ready.run(feed.arrays)
                compare_declared(model, values, feed.name)
            except (ExecutionError, Wrong):
                # Data that do not fit the model, or a model with wrong declarations, do not concern a pass.
                continue
            if not reads_unwritten_memory(model, feed.arrays):
                yield EngineResults(feed, values, reference.run(feed.arrays))

    def _apply(self, planned: Plan, model: ir.Model, trail: Trail) -> ir.Model:
        try:
            return Manager([trail]).run(planned, model).model
        except BudgetError as error:
            raise Wrong(Kind.HANG, str(error)) from error
        except OnnxPassesError as error:
            if not _is_crash(error):
                raise
            raise Wrong(Kind.CRASH, sentence(error)) from error
        except ir.passes.InvariantError as error:
            raise OnnxPassesError(str(error)) from error
        except Exception as error:
            raise Wrong(Kind.CRASH, f"{type(error).__name__}: {error}") from error

    def _require_rest(self, trail: Trail, model: ir.Model) -> None:
        """Rerun the last pass; it must change nothing."""
        if isinstance(trail.last, RewriteRuleSetPass) and trail.last in trail.changed:
            again = trail.last.run(copy_model(model), Context())
            if again.modified:
                raise Wrong(Kind.HANG, f"a second run of '{trail.last}' rewrites nodes that the first one left")

    def _judge(
        self, before: ir.Model, after: ir.Model, runs: Sequence[EngineResults], terms: CombinedClaim, planned: Plan
    ) -> None:
        found = list(self.complaints(before, after, runs, terms))
        worst = min(found, key=lambda wrong: wrong.kind.severity, default=None)
        if worst is not None and not self._is_excused(worst, before, runs, terms, planned):
            raise worst

    def complaints(
        self, before: ir.Model, after: ir.Model, runs: Sequence[EngineResults], terms: CombinedClaim
    ) -> Iterator[Wrong]:
        """Yield all violations of the claim."""
        try:
            check(ir.to_proto(after))
            compare_interfaces(before, after, may_annotate=True)
            ready = self._executor.prepare(after, also=list(interior(after)), engine="onnxruntime")
        except ExecutionError as error:
            if not _is_seconded(after, runs):
                yield Wrong(Kind.INVALID, sentence(error))
            return
        except (OnnxPassesError, onnx.checker.ValidationError, ir.serde.SerdeError) as error:
            yield Wrong(Kind.INVALID, sentence(error))
            return
        except Wrong as wrong:
            yield wrong
            return
        reference = NumpyReference(after)
        for run in runs:
            try:
                values = ready.run(run.feed.arrays)
                self._compare(before, run, values, terms)
                self._second(before, run, values, reference)
                compare_declared(after, values, run.feed.name)
            except ExecutionError as error:
                yield Wrong(Kind.INVALID, f"no longer runs: {error}", run.feed.name)
            except Wrong as wrong:
                yield wrong
        feeds = [run.feed for run in runs]
        if inside := violation_inside(before, after, terms.promise, feeds, self._executor):
            yield Wrong(Kind.WRONG, inside)

    def _compare(self, before: ir.Model, run: EngineResults, values: Arrays, terms: CombinedClaim) -> None:
        everything = (*run.feed.arrays.values(), *run.values.values(), *values.values())
        conditions = Conditions.of(everything, is_exact=run.feed.is_exact)
        old, new = _outputs(before, run.values), _outputs(before, values)
        different = difference(old, new, terms, conditions)
        if different is None:
            return
        kind, _ = different
        if (
            kind.severity >= Kind.WRONG.severity
            and terms.limits is not None
            and self._is_noise(before, run, new, terms)
        ):
            return
        raise Wrong(*different, run.feed.name)

    def _is_noise(self, before: ir.Model, run: EngineResults, found: Arrays, terms: CombinedClaim) -> bool:
        """Return whether results differ by no more than rounding errors in the model itself cause."""
        model = copy_model(before)
        bounds = rounding_bounds(model, list(model.graph.outputs), [run.feed.arrays], self._executor)
        return bounds is not None and terms.promise.holds(compare(_outputs(before, run.values), found), bounds[0])

    def _second(self, before: ir.Model, run: EngineResults, values: Arrays, reference: NumpyReference) -> None:
        """Compare the new model with the old one in the second engine, which may round differently."""
        if run.seconded is None or not agree(_outputs(before, run.values), _outputs(before, values)):
            # The second engine has the same tolerance as the first.
            return
        seconded = reference.run(run.feed.arrays)
        if seconded is None or agree(run.seconded, seconded):
            return
        if agree(_outputs(before, values), seconded):
            name = next(name for name in run.seconded if not agree({name: run.seconded[name]}, seconded))
            raise Wrong(Kind.WRONG, f"'{name}' differs in the reference evaluator", run.feed.name)

    def _is_excused(
        self, wrong: Wrong, before: ir.Model, runs: Sequence[EngineResults], terms: CombinedClaim, planned: Plan
    ) -> bool:
        """Return whether accepted small differences became large on their way through the model.

        That happens at a comparison or a rounding that the last bit decides. The rewrite after which results violate
        the claim must have changed the values that it replaced within the tolerance.
        """
        is_value = wrong.kind.severity >= Kind.WRONG.severity
        run = next((run for run in runs if run.feed.name == wrong.feed), None)
        if not is_value or terms.limits is None or run is None:
            return False
        first = self._first_bad(before, planned, [run], terms)
        if first is None:
            return False
        number, trail = first
        models = [self._stopped(planned, before, count)[0] for count in (number - 1, number)]
        known = [{str(value.name) for value in (*model.graph.outputs, *interior(model))} for model in models]
        names = [name for name in trail.replaced if name in known[0] and name in known[1]]
        if not names:
            return not run.feed.is_exact
        return self._is_near(models[0], models[1], names, run, terms)

    def _first_bad(
        self, before: ir.Model, planned: Plan, runs: Sequence[EngineResults], terms: CombinedClaim
    ) -> tuple[int, Trail] | None:
        """Find the first rewrite after which results violate the claim."""
        _, trail = self._stopped(planned, before, None)
        if trail.application is None:
            return None
        good, bad = 0, trail.application.number
        while bad - good > 1:
            middle = (good + bad) // 2
            model, _ = self._stopped(planned, before, middle)
            if any(self.complaints(before, model, runs, terms)):
                bad = middle
            else:
                good = middle
        return bad, self._stopped(planned, before, bad)[1]

    def _stopped(self, planned: Plan, before: ir.Model, count: int | None) -> tuple[ir.Model, Trail]:
        """Run a pipeline up to a number of rewrites."""
        trail, model = Trail(), copy_model(before)
        limits = [] if count is None else [Limit(count)]
        return Manager([*limits, trail]).run(planned, model).model, trail

    def _is_near(
        self, old: ir.Model, new: ir.Model, names: Sequence[str], run: EngineResults, terms: CombinedClaim
    ) -> bool:
        """Compare inner values of two models."""
        try:
            pick = partial(_named, names=names)
            results = [
                self._executor.prepare(model, also=pick(model), engine="onnxruntime").run(run.feed.arrays)
                for model in (old, new)
            ]
        except OnnxPassesError:
            return False
        conditions = Conditions.of([array for arrays in results for array in arrays.values()], is_exact=False)
        first, second = ({name: arrays[name] for name in names} for arrays in results)
        if difference(first, second, terms, conditions) is None:
            return True
        model = copy_model(old)
        bounds = rounding_bounds(model, _named(model, names), [run.feed.arrays], self._executor)
        return bounds is not None and terms.promise.holds(compare(first, second), bounds[0])


def _is_seconded(model: ir.Model, runs: Sequence[EngineResults]) -> bool:
    """Return whether a valid model without kernels in ONNX Runtime computes the same in the second engine.

    Each rule is tested separately for writing operators that have kernels; missing kernels of newer opsets are
    accepted.
    """
    reference, seconded = NumpyReference(model), [run for run in runs if run.seconded is not None]
    results = [(run.seconded, reference.run(run.feed.arrays)) for run in seconded]
    return bool(results) and all(old and new and agree(old, new) for old, new in results)


def _drop_defaults(model: ir.Model, planned: Plan) -> None:
    """Drop overridden defaults from the data if a pipeline makes optional inputs required."""
    for _, step in planned.walk():
        if isinstance(step.pass_, RemoveInitializersFromInputs) and not step.pass_.only_old:
            step.pass_.run(model, Context())


def _is_crash(error: OnnxPassesError) -> bool:
    """Return whether an error is a crash of a pass, and not a refusal."""
    return isinstance(error, ContractError | RewriteError) or (
        isinstance(error, PassFailedError) and error.__cause__ is not None
    )


def _outputs(model: ir.Model, values: Arrays) -> Arrays:
    return {str(value.name): values[str(value.name)] for value in model.graph.outputs}


def _named(model: ir.Model, names: Sequence[str]) -> list[ir.Value]:
    return [value for value in (*model.graph.outputs, *interior(model)) if value.name in names]


_ATOL, _RTOL = 1e-4, 1e-3


class NumpyReference:
    """Runs a model in numpy, operator by operator; ``obstacle`` is the reason if it cannot."""

    def __init__(self, model: ir.Model) -> None:
        from onnx.reference import ReferenceEvaluator

        self.obstacle = ""
        self._names = [str(value.name) for value in model.graph.outputs]
        try:
            runnable = copy_model(model)
            for pass_ in collect("inject-ops"):
                pass_.run(runnable, Context())
            _tell_overloads_apart(runnable)
            self._evaluator: Any = ReferenceEvaluator(ir.to_proto(runnable))
        except (OnnxPassesError, NotImplementedError, RuntimeError, ValueError, TypeError, KeyError) as error:
            self.obstacle = f"{type(error).__name__}: {error}"

    def run(self, feed: Arrays) -> Arrays | None:
        """Return the results, None if the evaluator fails."""
        if self.obstacle:
            return None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = self._evaluator.run(None, feed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it says nothing of a pass
            self.obstacle = f"{type(error).__name__}: {error}"
            return None
        return {name: np.asarray(array) for name, array in zip(self._names, results, strict=True)}


def _tell_overloads_apart(model: ir.Model) -> None:
    """Rename the variants of a function, since the evaluator does not distinguish them."""
    functions = list(model.functions.values())
    for node in (node for holder in (model.graph, *functions) for node in holder.all_nodes()):
        if node.overload:
            node.op_type, node.overload = f"{node.op_type}.{node.overload}", ""
    model.functions.clear()
    for function in functions:
        if function.overload:
            function.name, function.overload = f"{function.name}.{function.overload}", ""
        model.functions[function.identifier()] = function


def agree(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> bool:
    """Return whether two engines compute the same, up to rounding."""
    return all(_alike(array, second[name]) for name, array in first.items())


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, list) or isinstance(b, list):
        first, second = list(tensors_in([a])), list(tensors_in([b]))
        return len(first) == len(second) and all(map(_alike, first, second))
    if a.dtype == object or b.dtype == object:
        return a.shape == b.shape and bool((a == b).all())
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool((a == b).all())
    x, y = a.astype(np.float64), b.astype(np.float64)
    precision = 64 * float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else 2.0**-4
    with np.errstate(all="ignore"):
        near = np.isfinite(x) & (np.abs(x - y) <= max(_ATOL, precision) + max(_RTOL, precision) * np.abs(x))
    return bool((near | (x == y) | (np.isnan(x) & np.isnan(y))).all())
