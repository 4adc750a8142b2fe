"""Fuzz one rule from one seed: scout for matches, let hypothesis draw and shrink, report."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from typing import Any, cast

import onnx

from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import (
    Draws,
    Experience,
    HypothesisSource,
    Lessons,
    RandomSource,
    UnbuildableError,
    no_favourite_numbers,
    require_hypothesis,
)
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.generate import generate
from onnx_passes.testing.fuzz.judge import CaseVerdict, feed_named, text_of
from onnx_passes.testing.fuzz.report import Finding, FuzzReport, Kind
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.worker import Worker

_UNBIASED = 120
"""Number of scouts before the experience of earlier ones is used."""
_EASY = 0.7
"""Share of matches above which a rule needs no experience."""
_ALIVE = 1 / 3
_MOST_TRIES = 6
"""Maximum number of generated models for each requested one, if many do not run."""


class FoundError(Exception):
    """Exception that carries a finding through hypothesis, which shrinks it."""

    def __init__(self, finding: Finding, case: Case) -> None:
        super().__init__(finding.message)
        self.finding = finding
        self.case = case


class _OutOfTime(BaseException):
    """Exception that ends a search; hypothesis does not catch it."""


_FOUND: dict[Kind, type[FoundError]] = {kind: type(f"{kind}Error", (FoundError,), {}) for kind in Kind}
"""Exception classes by kind, since hypothesis distinguishes failures by class."""


class Trial:
    """Fuzzes one rule from one seed; ``found`` holds the smallest case of each finding."""

    def __init__(self, target: FuzzTarget, worker: Worker, cases: int, seed: int, effort: Effort) -> None:
        self.target = target
        self.worker = worker
        self.cases = cases
        self.seed = seed
        self.effort = effort
        self.report = FuzzReport(target.name)
        self.found: list[tuple[Finding, Case]] = []
        self._smallest: dict[Kind, FoundError] = {}
        self._known: dict[bytes, CaseVerdict] = {}
        self._seen: set[bytes] = set()
        self._tries = 0
        self._has_soft = self._wants_soft = False
        self._shrinking_since: float | None = None
        self._shrunk = 0

    def run(self) -> FuzzReport:
        """Run the trial."""
        started = time.perf_counter()
        experience = self._scout()
        errors = list(self._explore(experience))
        if not errors and self._has_soft:
            # The same cases again, with cached verdicts: now soft findings count and are shrunk.
            self.report = FuzzReport(self.target.name)
            self._seen.clear()
            self._tries = 0
            self._wants_soft = True
            errors = list(self._explore(experience))
        for error in errors:
            self.report.findings.append(error.finding)
            self.found.append((error.finding, error.case))
        self.report.findings.sort(key=lambda finding: finding.kind.severity)
        # Hypothesis ends early where it finds few models that differ: these are judged by their own number.
        tried = max(self.report.cases, self.cases // 2)
        if not self.report.findings and is_dead(self.report.matches, tried):
            self.report.dead = (self.target.name,)
        self.report.seconds = time.perf_counter() - started
        return self.report

    def _scout(self) -> Experience:
        """Find out from random cases which answers let the rule match."""
        lessons = Lessons()
        while self._needs_scouts(lessons):
            experience = lessons.experience() if lessons.cases > _UNBIASED else None
            draws = Draws(RandomSource(self.seed * 1_000_003 + lessons.cases), experience)
            try:
                case = generate(self.target, draws)
            except UnbuildableError:
                lessons.add(draws.answers, good=False)
                continue
            verdict = self.worker.judge(self.target, case, match_only=True)
            is_telling = verdict.outcome == "finding"
            lessons.add(draws.answers, good=is_telling or verdict.outcome == "fine", telling=is_telling)
        return Experience() if _is_easy(lessons) and not lessons.has_telling else lessons.experience()

    def _needs_scouts(self, lessons: Lessons) -> bool:
        if lessons.cases < self.effort.first_scouts or not lessons.cases:
            return True
        return not _is_easy(lessons) and lessons.good < self.effort.matches and lessons.cases < self.effort.most_scouts

    def _explore(self, experience: Experience) -> Iterator[FoundError]:
        hypothesis = require_hypothesis()
        strategies = hypothesis.strategies

        def test(data: Any) -> None:
            case = self._draw(data, experience)
            if case is None or not self._try(case):
                hypothesis.reject()

        settings = hypothesis.settings(
            max_examples=self.cases,
            database=None,
            deadline=None,
            derandomize=False,
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
            suppress_health_check=list(hypothesis.HealthCheck),
            verbosity=hypothesis.Verbosity.quiet,
            print_blob=False,
        )
        run = hypothesis.seed(self.seed)(settings(hypothesis.given(strategies.data())(test)))
        try:
            with no_favourite_numbers():
                run()
        except hypothesis.errors.Unsatisfiable:
            return
        except FoundError as error:
            yield error
        except BaseExceptionGroup as errors:
            yield from _found_in(errors) or self._smallest.values()
        except (_OutOfTime, hypothesis.errors.Flaky):
            yield from self._smallest.values()

    def _draw(self, data: Any, experience: Experience) -> Case | None:
        self._tries += self._shrinking_since is None
        if self._tries > _MOST_TRIES * self.cases:
            raise _OutOfTime
        try:
            return generate(self.target, Draws(HypothesisSource(data), experience))
        except UnbuildableError:
            if self._shrinking_since is None:
                self.report.skipped += 1
            return None

    def _try(self, case: Case) -> bool:
        """Judge a case and count it; return whether it counts, and raise a finding."""
        counts = self._shrinking_since is None
        digest = hashlib.sha256(case.encode()).digest()
        if counts and digest in self._seen:
            return False
        self._seen.add(digest)
        verdict = self._verdict(case, digest)
        if verdict.outcome == "skipped":
            self.report.skipped += counts
            return False
        self.report.cases += counts
        self.report.matches += counts and verdict.outcome != "no match"
        if verdict.outcome == "finding" and self._is_wanted(Kind(verdict.kind)):
            if self._shrinking_since is None:
                self._shrinking_since = time.perf_counter()
            raise self._error(verdict, case)
        return True

    def _verdict(self, case: Case, digest: bytes) -> CaseVerdict:
        """Judge a case once; raise _OutOfTime when the time for shrinking is over."""
        if digest not in self._known:
            if self._shrinking_since is not None:
                self._shrunk += 1
                taken = time.perf_counter() - self._shrinking_since
                if self._shrunk > self.effort.shrink_cases or taken > self.effort.shrink_seconds:
                    raise _OutOfTime
            self._known[digest] = self.worker.judge(self.target, case)
        return self._known[digest]

    def _is_wanted(self, kind: Kind) -> bool:
        """Return whether a finding is to be shrunk: soft ones only without others, none if a worse one is known."""
        if kind.is_soft and not self._wants_soft:
            self._has_soft = True
            return False
        return kind in self._smallest or all(known.severity > kind.severity for known in self._smallest)

    def _error(self, verdict: CaseVerdict, case: Case) -> FoundError:
        kind = Kind(verdict.kind)
        error = _FOUND[kind](finding_of(self.target, verdict, case), case)
        known = self._smallest.get(kind)
        if known is None or len(case.model) <= len(known.case.model):
            self._smallest[kind] = error
        return error


def is_dead(matches: int, cases: int) -> bool:
    """Return whether a rule rewrote too few of the models to judge it."""
    return matches < _ALIVE * cases


def _is_easy(lessons: Lessons) -> bool:
    return lessons.good >= _EASY * lessons.cases


def finding_of(target: FuzzTarget, verdict: CaseVerdict, case: Case) -> Finding:
    """Return the finding for the verdict on a case."""
    return Finding(
        Kind(verdict.kind),
        verdict.message,
        text_of(onnx.ModelProto.FromString(case.model)),
        verdict.after,
        feed_named(case, verdict.feed),
        target.name,
    )


def _found_in(errors: BaseExceptionGroup[Any]) -> list[FoundError]:
    found: list[FoundError] = []
    for error in errors.exceptions:
        if isinstance(error, FoundError):
            found.append(error)
        elif isinstance(error, BaseExceptionGroup):
            found.extend(_found_in(cast("BaseExceptionGroup[Any]", error)))
    return found
