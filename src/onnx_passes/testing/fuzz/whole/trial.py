"""Run random pipelines on random models from one seed, and reduce the failures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import onnx

from onnx_passes.core.plan import plan
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.judge import Verdict, feed_named, text_of
from onnx_passes.testing.fuzz.report import Finding, FuzzReport, Kind
from onnx_passes.testing.fuzz.structure import structure_of
from onnx_passes.testing.fuzz.whole.judging import DISPUTED, PipelineJudge
from onnx_passes.testing.fuzz.whole.models import Family, random_case
from onnx_passes.testing.fuzz.whole.pipelines import random_pipeline
from onnx_passes.testing.fuzz.whole.reduction import reduced
from onnx_passes.testing.fuzz.worker import Answer, JudgingProcess
from onnx_passes.verify.run.execute import Executor

_APART = 1_000_003
"""Distance of the seeds of models between trials."""
_PIPELINES = 7_919
"""Offset of the seeds of pipelines from those of models."""


class ModelWorker(JudgingProcess):
    """Judges models under pipelines, in a process of its own."""

    def __init__(self, seconds: float = Effort.seconds) -> None:
        super().__init__(_judging, seconds)

    def judge(self, case: Case, pipeline: str, *, blame: bool = False) -> Verdict:
        """Judge a model under a pipeline."""
        about = json.dumps({"pipeline": pipeline, "blame": blame}).encode()
        return self.ask(len(about).to_bytes(4) + about + case.encode())


def _judging(entering: Callable[[], None]) -> Answer:
    judge = PipelineJudge(Executor(protected=True), entering)

    def answer(question: bytes) -> Verdict:
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


def finding_of(case: Case, pipeline: str, verdict: Verdict) -> Finding:
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
