"""Tasks of a campaign: one rule from one seed, as plain data for any process."""

from __future__ import annotations

import hashlib
import shlex
import sys
import threading
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from pathlib import Path

import onnx_passes
from onnx_passes.core.imports import import_user_modules
from onnx_passes.testing.fuzz.effort import Effort
from onnx_passes.testing.fuzz.report import Finding, FuzzReport
from onnx_passes.testing.fuzz.structure import structure_of
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered, targets_of
from onnx_passes.testing.fuzz.trial import Trial
from onnx_passes.testing.fuzz.whole.models import Family
from onnx_passes.testing.fuzz.whole.trial import ModelTrial, ModelWorker
from onnx_passes.testing.fuzz.worker import Worker
from onnx_passes.verify.run.resources import Resources, limited
from onnx_passes.workers.origin import versions

_LOADING = threading.Lock()


@dataclass(frozen=True)
class CampaignPlan:
    """Settings of all tasks of a campaign: names of passes (empty for all registered ones), and options.

    With ``models``, random models of these families run through random pipelines of all passes, instead of rules.
    """

    rules: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    cases: int = 60
    effort: Effort = field(default_factory=Effort)
    resources: Resources = field(default_factory=Resources)
    models: tuple[Family, ...] = ()

    @property
    def names(self) -> list[str]:
        """List the names of targets: rules, or families of models."""
        return list(self.models or self.targets())

    def targets(self) -> dict[str, FuzzTarget]:
        """Find the rules by their names; user modules must be imported already."""
        found = [target for name in self.rules for target in targets_of(name)] if self.rules else registered()
        return {target.name: target for target in found}

    def version(self) -> str:
        """Return a digest of everything that affects findings: versions, our sources, those of the user."""
        digest = hashlib.blake2b(repr((versions(), self.cases, astuple(self.effort), self.resources)).encode())
        for path in self._sources():
            digest.update(path.read_bytes())
        return f"{onnx_passes.__version__}-{digest.hexdigest()[:12]}"

    def _sources(self) -> Iterator[Path]:
        yield from sorted(Path(onnx_passes.__file__).parent.rglob("*.py"))
        for name in self.imports:
            file = name if name.endswith(".py") else getattr(sys.modules.get(name), "__file__", None)
            if file is not None:
                yield Path(file)

    def command(self, rule: str, seed: int) -> str:
        """Return the command that reproduces a finding."""
        imports = [word for name in self.imports for word in ("--import", name)]
        if self.models:
            wanted = ["--models", rule, "--cases", str(self.cases), "--seed", str(seed)]
            return shlex.join(["onnx-passes", "fuzz", *imports, *wanted])
        with_options = next((name for name in self.rules if "{" in name), None)
        cases = ["--cases", str(self.cases), "--seed", str(seed)]
        return shlex.join(["onnx-passes", "fuzz", *imports, *cases, with_options or rule])


@dataclass(frozen=True)
class Task:
    """One rule, or one family of models, and its seed."""

    plan: CampaignPlan
    rule: str
    seed: int


@dataclass(frozen=True)
class Found:
    """Finding, with the structure and size of the reduced model."""

    finding: Finding
    structure: str
    size: int


@dataclass(frozen=True)
class Tried:
    """Result of a task; ``failure`` is set if it could not be done."""

    report: FuzzReport
    found: tuple[Found, ...] = ()
    failure: str = ""


class Workshop:
    """State of a process for the tasks of a plan: loaded rules, and one worker for all cases."""

    def __init__(self, plan: CampaignPlan) -> None:
        self._targets = {} if plan.models else plan.targets()
        seconds = plan.effort.seconds
        self._worker = ModelWorker(seconds) if plan.models else Worker(list(self._targets.values()), seconds)
        self._one_by_one = threading.Lock()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def do(self, task: Task) -> Tried:
        """Fuzz a rule or a family; an error outside of passes is returned, so that other tasks continue."""
        plan = task.plan
        limits = limited(time_limit=plan.resources.seconds, memory_limit=plan.resources.memory)
        with self._one_by_one, limits:
            trial = self._trial(task)
            try:
                report = trial.run()
            except Exception as error:  # noqa: BLE001 - told at the end
                return Tried(FuzzReport(task.rule), failure=f"{type(error).__name__}: {error}")
        found = tuple(Found(finding, structure_of(case.model), len(case.model)) for finding, case in trial.found)
        return Tried(report, found)

    def _trial(self, task: Task) -> Trial | ModelTrial:
        plan = task.plan
        if isinstance(self._worker, ModelWorker):
            family = dict(zip(plan.names, plan.models, strict=True))[task.rule]
            modules = tuple(
                Path(name).stem if name.endswith(".py") else name.partition(".")[0] for name in plan.imports
            )
            return ModelTrial(family, self._worker, plan.cases, task.seed, plan.effort, modules)
        assert isinstance(self._worker, Worker)
        return Trial(self._targets[task.rule], self._worker, plan.cases, task.seed, plan.effort)


def do_task(task: Task) -> Tried:
    """Do a task in a process that is shared by the tasks of its plan."""
    with _LOADING:
        workshop = _workshop(task.plan)
    return workshop.do(task)


@lru_cache(maxsize=1)
def _workshop(plan: CampaignPlan) -> Workshop:
    import_user_modules(plan.imports)
    return Workshop(plan)
