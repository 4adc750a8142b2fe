"""Run random pipelines on random models from one seed, and reduce model and pipeline of a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial

import onnx
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.plan import plan
from onnx_passes.debug.reduce.reducer import minimise, reduce
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.feeds import feeds_of
from onnx_passes.testing.fuzz.judge import CaseVerdict, feed_named, text_of
from onnx_passes.testing.fuzz.report import Finding, FuzzReport, Kind
from onnx_passes.testing.fuzz.structure import structure_of
from onnx_passes.testing.fuzz.whole.judging import DISPUTED, PipelineJudge
from onnx_passes.testing.fuzz.whole.models import Family, random_case
from onnx_passes.testing.fuzz.whole.pipelines import Pipeline, random_pipeline
from onnx_passes.testing.fuzz.worker import Answer, JudgingProcess
from onnx_passes.verify.run.execute import ExecutionError, Executor, Sample

_APART = 1_000_003
"""Distance of the seeds of models between trials."""
_PIPELINES = 7_919
"""Offset of the seeds of pipelines from those of models."""


class ModelWorker(JudgingProcess):
    """Judges models under pipelines, in a process of its own."""

    def __init__(self, seconds: float = Effort.seconds) -> None:
        super().__init__(_judging, seconds)

    def judge(self, case: Case, pipeline: str, *, blame: bool = False) -> CaseVerdict:
        """Judge a model under a pipeline."""
        about = json.dumps({"pipeline": pipeline, "blame": blame}).encode()
        return self.ask(len(about).to_bytes(4) + about + case.encode())


def _judging(entering: Callable[[], None]) -> Answer:
    judge = PipelineJudge(Executor(protected=True), entering)

    def answer(question: bytes) -> CaseVerdict:
        end = 4 + int.from_bytes(question[:4])
        about = json.loads(question[4:end])
        return judge(Case.decode(question[end:]), about["pipeline"], blame=about["blame"])

    return answer


class ModelTrial:
    """Tests random models of one family, from one seed; ``found`` are the reduced cases of findings.

    Pipelines consist of passes of the collection and of ``modules``.
    """

    def __init__(
        self,
        family: Family,
        worker: ModelWorker,
        cases: int,
        seed: int,
        effort: Effort,
        modules: tuple[str, ...] = (),
    ) -> None:
        self.modules = modules
        self.family: Family = family
        self.worker = worker
        self.cases = cases
        self.seed = seed
        self.effort = effort
        self.report = FuzzReport(family)
        self.found: list[tuple[Finding, Case]] = []

    def run(self) -> FuzzReport:
        """Run the trial."""
        started = time.perf_counter()
        for number in range(self.cases):
            self._try(self.seed * _APART + number)
        self.report.findings = [finding for finding, _ in self.found]
        self.report.seconds = time.perf_counter() - started
        return self.report

    def _try(self, seed: int) -> None:
        pipeline = random_pipeline(Draws(RandomSource(seed + _PIPELINES)), self.modules)
        try:
            case = random_case(self.family, seed, {step.name for _, step in plan(str(pipeline)).walk()})
        except UnbuildableError:
            self.report.skipped += 1
            return
        verdict = self.worker.judge(case, str(pipeline))
        if verdict.outcome == "skipped":
            self.report.skipped += 1
            self.report.disputed += verdict.message == DISPUTED
            return
        self.report.cases += 1
        self.report.matches += verdict.outcome != "no match"
        if verdict.outcome == "finding":
            smaller, passes = reduced(case, pipeline, verdict, partial(self.worker.judge), self.effort.shrink_seconds)
            finding = finding_of(smaller, str(passes), self.worker.judge(smaller, str(passes), blame=True))
            if all(_key(finding, smaller) != _key(*known) for known in self.found):
                self.found.append((finding, smaller))


def finding_of(case: Case, pipeline: str, verdict: CaseVerdict) -> Finding:
    """Return the finding for the verdict on a case."""
    return Finding(
        Kind(verdict.kind or Kind.HANG),
        verdict.message,
        text_of(onnx.ModelProto.FromString(case.model)),
        verdict.after,
        feed_named(case, verdict.feed) or case.given or {},
        verdict.rule or pipeline,
        pipeline,
    )


def _key(finding: Finding, case: Case) -> tuple[str, str, str]:
    return finding.rule, str(finding.kind), structure_of(case.model)


Judge = Callable[[Case, str], CaseVerdict]
_BY_PLAN = ("needed", "follows")
"""Reason of a pass in a plan without a pipeline."""
_ROUNDS = 2
"""Number of rounds to which a repeated sequence is unrolled."""


def reduced(
    case: Case, pipeline: Pipeline, verdict: CaseVerdict, judge: Judge, seconds: float
) -> tuple[Case, Pipeline]:
    """Remove passes, then parts of the model, while the judge finds the same kind of failure."""

    def fails(candidate: Case, passes: Pipeline) -> bool:
        found = judge(candidate, str(passes))
        return found.outcome == "finding" and found.kind == verdict.kind

    passes = _fewer_passes(pipeline, lambda shorter: fails(case, shorter))
    sample = _telling(case, verdict)
    if sample is None:
        return case, passes
    model = ir.from_proto(onnx.ModelProto.FromString(case.model))
    try:
        reduction = reduce(
            model,
            [sample],
            lambda smaller, samples: bool(samples) and fails(_given(smaller, samples[0]), passes),
            executor=Executor(),
            most_seconds=seconds,
        )
    except OnnxPassesError:
        # The failure needs other data as well.
        return case, passes
    smaller = _given(reduction.model, reduction.samples[0])
    return smaller, _fewer_passes(passes, lambda shorter: fails(smaller, shorter))


def _fewer_passes(pipeline: Pipeline, fails: Callable[[Pipeline], bool]) -> Pipeline:
    """Remove the order of nodes, groups around passes, and passes if the failure remains without them."""
    if pipeline.seed is not None and fails(Pipeline(pipeline.items)):
        pipeline = Pipeline(pipeline.items)
    pipeline = _some_of(pipeline, fails)
    leaves = [
        step.text for _, step in plan(str(pipeline)).walk() if not step.children and step.why.reason not in _BY_PLAN
    ]
    spelt = Pipeline(tuple(leaves) * _ROUNDS, pipeline.seed)
    if leaves and tuple(leaves) != pipeline.items and fails(spelt):
        pipeline = _some_of(spelt, fails)
    return pipeline


def _some_of(pipeline: Pipeline, fails: Callable[[Pipeline], bool]) -> Pipeline:
    def chosen(places: Sequence[int]) -> Pipeline:
        return Pipeline(tuple(pipeline.items[place] for place in places), pipeline.seed)

    return chosen(minimise(list(range(len(pipeline.items))), lambda places: fails(chosen(places))))


def _telling(case: Case, verdict: CaseVerdict) -> Sample | None:
    """Return the data that showed the failure, or else data that the model accepts."""
    feeds = {feed.name: feed.arrays for feed in feeds_of(case)}
    if verdict.feed in feeds:
        return feeds[verdict.feed]
    try:
        ready = Executor().prepare(ir.from_proto(onnx.ModelProto.FromString(case.model)))
    except OnnxPassesError:
        return None
    for arrays in feeds.values():
        try:
            ready.run(arrays)
        except ExecutionError:
            continue
        return arrays
    return None


def _given(model: ir.Model, sample: Sample) -> Case:
    return Case(ir.to_proto(model).SerializeToString(), given=dict(sample))
