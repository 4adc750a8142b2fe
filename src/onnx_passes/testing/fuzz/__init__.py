"""The rule fuzzer: models generated from the pattern of a rule, run before and after the rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.report import Finding, FuzzReport, Kind

if TYPE_CHECKING:
    from onnx_passes.testing.fuzz.corpus import Corpus
    from onnx_passes.testing.fuzz.targets import FuzzTarget
    from onnx_passes.testing.fuzz.worker import Worker

__all__ = ["Effort", "Finding", "FuzzReport", "Kind", "fuzz", "fuzz_each", "try_rule"]

_USUAL = Effort()


def fuzz(
    pass_or_rule: object, cases: int = 60, seed: int = 0, *, corpus: Path | None = None, effort: Effort = _USUAL
) -> FuzzReport:
    """Test a rule on generated models that it should match, and report failures.

    Takes a pass or its name, a rule, or a rule of onnxscript; each rule of a pass gets its own ``cases``, and the
    report adds them up. Known failures in the folder ``corpus`` are tried first, and new ones are added.
    """
    reports = list(fuzz_each(pass_or_rule, cases, seed, corpus=corpus, effort=effort))
    if len(reports) == 1:
        return reports[0]
    total = FuzzReport(str(getattr(pass_or_rule, "__name__", pass_or_rule)))
    for report in reports:
        total.add(report)
    return total


def fuzz_each(
    pass_or_rule: object, cases: int = 60, seed: int = 0, *, corpus: Path | None = None, effort: Effort = _USUAL
) -> Iterator[FuzzReport]:
    """Fuzz every rule of a pass or group, and yield each report as soon as it is done."""
    from onnx_passes.testing.fuzz.corpus import Corpus
    from onnx_passes.testing.fuzz.targets import targets_of
    from onnx_passes.testing.fuzz.worker import Worker

    known = None if corpus is None else Corpus(corpus)
    targets = targets_of(pass_or_rule)
    with Worker(targets, effort.seconds) as worker:
        for target in targets:
            yield try_rule(target, worker, cases, seed, known, effort)


def try_rule(
    target: FuzzTarget, worker: Worker, cases: int, seed: int, corpus: Corpus | None = None, effort: Effort = _USUAL
) -> FuzzReport:
    """Fuzz one rule in a worker process that is shared with others."""
    from onnx_passes.testing.fuzz.structure import structure_of
    from onnx_passes.testing.fuzz.trial import Trial

    trial = Trial(target, worker, cases, seed, effort)
    if corpus is not None and corpus.replay(target, worker, trial.report):
        return trial.report
    report = trial.run()
    if corpus is not None:
        for finding, case in trial.found:
            corpus.keep(finding, structure_of(case.model))
    return report
