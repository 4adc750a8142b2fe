"""Predicates of the failure that a reduction must keep: failure of a pipeline, or exit code of a command."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnx_passes.check.blame.reproducer import write_samples
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import check
from onnx_passes.check.verification import Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.compose import PassLike
from onnx_passes.core.errors import OnnxPassesError, PassFailedError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step, plan
from onnx_passes.core.records import Application, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.save import save
from onnx_passes.verify.comparison.compare import TensorStatus
from onnx_passes.verify.comparison.evidence import DEFAULT, Limits
from onnx_passes.verify.failure import Failure, PostconditionError
from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor, Sample
from onnx_passes.verify.samples.generate import Sampling, draw_special, generate
from onnx_passes.verify.samples.reference import read_inputs
from onnx_passes.verify.samples.sources import listed

Fails = Callable[[ir.Model, list[Sample]], bool]

_INTERFACE = [status for status in TensorStatus if status not in (TensorStatus.EQUAL, TensorStatus.VALUES)]
_COUNTS = re.compile(r"(\d+) of \d+ elements? differs?(?:, (\d+) by NaN)?(?:, (\d+) by infinity)?")
_RULE = re.compile(r", by (.+)$")


@dataclass(frozen=True)
class Symptom:
    """Symptom of a failing pipeline: pass, kind and rule; ``others`` are the kinds of failure of further outputs."""

    step: str
    kind: str
    rule: str = ""
    others: frozenset[str] = field(default=frozenset(), compare=False)

    def __str__(self) -> str:
        return f"{self.kind} in {self.step}" + (f", by {self.rule}" if self.rule else "")


@dataclass(frozen=True)
class Observation:
    """Observed failure, the number of the failed step, and the rules that were applied in this step."""

    symptom: Symptom
    error: Exception
    number: int
    rules: frozenset[str] = frozenset()

    def shows(self, symptom: Symptom) -> bool:
        """Return whether the failure matches a symptom."""
        found = self.symptom
        same_rule = not symptom.rule or symptom.rule in self.rules
        return found.step == symptom.step and found.kind in (symptom.kind, *symptom.others) and same_rule


class ByPipeline:
    """Predicate: a pipeline fails on a model with the same symptom as in the first call."""

    def __init__(
        self,
        planned: Plan,
        limits: Limits | None,
        executor: Executor,
        symptom: Symptom | None,
        *,
        special: bool | None = None,
        seed: int = 0,
    ) -> None:
        self.planned = planned
        self.special, self.seed = special, seed
        self.limits = limits or DEFAULT
        self.executor = executor
        self.symptom = symptom

    def on(self, planned: Plan, symptom: Symptom | None) -> ByPipeline:
        """Return the predicate for another pipeline and a given symptom."""
        return ByPipeline(planned, self.limits, self.executor, symptom, special=self.special, seed=self.seed)

    def observe(self, model: ir.Model, samples: Sequence[Sample]) -> Observation | None:
        """Run the pipeline on a copy, verified on the samples or, without any, on generated ones."""
        watch = _Watch()
        verification = Verification(
            inputs=samples, special=self.special, seed=self.seed, limits=self.limits, executor=self.executor
        )
        try:
            Manager([verification, watch]).run(self.planned, copy_model(model))
        except PostconditionError as error:
            failure = error.failure
            others = self._other_kinds(model, watch.after, samples) if self.symptom is None else frozenset[str]()
            symptom = Symptom(failure.text, kind_of_failure(failure.claim, failure.difference), _rule(failure), others)
            return Observation(symptom, error, failure.step, frozenset(watch.rules.get(failure.step, ())))
        except (OnnxPassesError, ir.passes.InvariantError) as error:
            if watch.failed is None:
                # The model itself does not run on these samples.
                return None
            return Observation(Symptom(watch.failed.text, _crash(error)), error, watch.failed.number)
        return None

    def _other_kinds(self, before: ir.Model, after: ir.Model | None, samples: Sequence[Sample]) -> frozenset[str]:
        """Return in which ways all outputs differ: which of them comes first is chance."""
        if after is None or not samples:
            return frozenset()
        try:
            verdict = check(Claim("equality"), before, after, Settings(inputs=samples, executor=self.executor))
        except OnnxPassesError:
            return frozenset()
        return frozenset(_difference(t.message()) for result in verdict.results for t in result.tensors if not t.equal)

    def __call__(self, model: ir.Model, samples: list[Sample]) -> bool:
        """Return whether the failure is still there; the first failure sets the symptom."""
        seen = self.observe(model, samples)
        if seen is not None and self.symptom is None:
            self.symptom = seen.symptom
        return seen is not None and self.symptom is not None and seen.shows(self.symptom)


def fails_by_pipeline(
    pipeline: PassLike | Iterable[PassLike] | Plan,
    limits: Limits | None = None,
    *,
    options: Mapping[str, Mapping[str, object]] | None = None,
    executor: Executor | None = None,
    symptom: Symptom | None = None,
    special: bool | None = None,
    seed: int = 0,
) -> ByPipeline:
    """Return a predicate: the pipeline, verified on the samples, fails in the same pass and the same way.

    A wrong value stays a wrong value (and NaN, infinity, the sign of a zero stay what they are), a wrong shape a wrong
    shape, an exception one of its type; a rule that is known to be the culprit must have been applied. ``special``
    asks for samples of NaN, infinities and the largest numbers, drawn from the ``seed``, beside those that are given.
    """
    planned = pipeline if isinstance(pipeline, Plan) else plan(pipeline, defaults=options)
    return ByPipeline(planned, limits, executor or Executor(), symptom, special=special, seed=seed)


def fails_by_command(command: str, *, timeout: float = 60.0) -> Fails:
    """Return a predicate: a shell command ends with another exit code than 0.

    ``{}`` in the command stands for the path of the model, which is appended if there is none; the samples lie
    beside it as ``inputs-N.npz``. A command that takes longer than ``timeout`` seconds counts as fine.
    """

    def fails(model: ir.Model, samples: list[Sample]) -> bool:
        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            path = Path(folder) / "model.onnx"
            save(model, path, external=False)
            write_samples(Path(folder), samples)
            text = command.replace("{}", str(path)) if "{}" in command else f"{command} {path}"
            try:
                # Running a command of the user is what was asked for.
                done = subprocess.run(text, shell=True, capture_output=True, timeout=timeout, check=False)  # noqa: S602
            except subprocess.TimeoutExpired:
                return False
            return done.returncode != 0

    return fails


def usable_samples(
    model: ir.Model, inputs: Sequence[Any] = (), *, seed: int = 0, executor: Executor | None = None
) -> list[Sample]:
    """Return the given samples, or generated ones that the model takes; none if it cannot be run.

    Raises UsageError if the model does not run on samples that are given.
    """
    executor = executor or Executor()
    inputs = listed(inputs)
    if inputs:
        samples = read_inputs(model, inputs)
        require_running(model, samples, executor)
        return samples
    try:
        ready = executor.prepare(model)
        samples = generate(model, seed=seed, thorough=True)
    except (ExecutionError, UsageError):
        return []
    return [sample for sample in samples if _takes(ready, sample)]


def special_samples(model: ir.Model, seed: int) -> list[Sample]:
    """Return generated samples of NaN, infinities, and the largest and smallest numbers that the model takes."""
    ready = Executor().prepare(model)
    drawn = draw_special(model, Sampling(seed, special=True))
    return [sample for _, sample in drawn if _takes(ready, sample)]


def require_running(model: ir.Model, samples: Sequence[Sample], executor: Executor) -> None:
    """Refuse samples on which the model does not run before any pass."""
    try:
        ready = executor.prepare(model)
        for sample in samples:
            ready.run(sample)
    except ExecutionError as error:
        raise UsageError(f"the model does not run on these inputs before any pass: {error}") from error


def _takes(ready: Executable, sample: Sample) -> bool:
    try:
        ready.run(sample)
    except ExecutionError:
        return False
    return True


class _Watch(Instrument):
    """Sees which rules were applied, which pass raised, and the model after the last one."""

    def __init__(self) -> None:
        self.rules: dict[int, set[str]] = {}
        self.failed: StepRecord | None = None
        self.after: ir.Model | None = None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        self.after = model

    def after_rewrite(self, application: Application) -> None:
        self.rules.setdefault(application.step.number, set()).add(application.rule)

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        # A sequence fails with its member, which is told first.
        self.failed = self.failed or record


def kind_of_failure(claim: str, difference: str) -> str:
    """Return how a claim was violated, according to the text of a report."""
    if claim.startswith("structure"):
        return "structure"
    if difference.startswith("the model no longer runs"):
        return "no longer runs"
    return _difference(difference)


def _difference(text: str) -> str:
    for status in _INTERFACE:
        if f": {status}" in text:
            return str(status)
    if "signed zeros differ" in text:
        return "signed zeros differ"
    counts = _COUNTS.search(text)
    if counts is not None and counts[1] in (counts[2], counts[3]):
        return "NaN differs" if counts[1] == counts[2] else "infinities differ"
    return str(TensorStatus.VALUES)


def _rule(failure: Failure) -> str:
    found = _RULE.search(failure.application)
    return found[1] if found else ""


def _crash(error: Exception) -> str:
    """Name the exception; one of the pass's own code is the cause of ours."""
    original = error.__cause__ if type(error) is PassFailedError and error.__cause__ is not None else error
    return f"{type(original).__name__} raised"
