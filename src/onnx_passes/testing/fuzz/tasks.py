"""The work of a campaign: one rule tried from one seed, as plain data that any process can take."""

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
from onnx_passes.testing.fuzz.targets import Target, registered, targets_of
from onnx_passes.testing.fuzz.trial import Trial
from onnx_passes.testing.fuzz.whole.models import Family
from onnx_passes.testing.fuzz.whole.trial import ModelTrial, ModelWorker
from onnx_passes.testing.fuzz.worker import Worker
from onnx_passes.verify.run.resources import Resources, limited
from onnx_passes.workers.origin import versions

_LOADING = threading.Lock()


@dataclass(frozen=True)
class Plan:
    """What all tasks of a campaign share: names of passes, or all that are registered, and how they are tried.

    With ``models`` random models of these families are judged under random pipelines of all passes, and no rules.
    """

    rules: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    cases: int = 60
    effort: Effort = field(default_factory=Effort)
    resources: Resources = field(default_factory=Resources)
    models: tuple[Family, ...] = ()

    @property
    def names(self) -> list[str]:
        """List what is tried, by name: rules, or families of models."""
        return list(self.models or self.targets())

    def targets(self) -> dict[str, Target]:
        """Find the rules by their names; what is imported must have been."""
        found = [target for name in self.rules for target in targets_of(name)] if self.rules else registered()
        return {target.name: target for target in found}

    def version(self) -> str:
        """Return a digest of everything that decides about findings: versions, our sources, those of the user."""
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
        """Return the command that shows again what was found."""
        imports = [word for name in self.imports for word in ("--import", name)]
        if self.models:
            wanted = ["--models", rule, "--cases", str(self.cases), "--seed", str(seed)]
            return shlex.join(["onnx-passes", "fuzz", *imports, *wanted])
        with_options = next((name for name in self.rules if "{" in name), None)
        cases = ["--cases", str(self.cases), "--seed", str(seed)]
        return shlex.join(["onnx-passes", "fuzz", *imports, *cases, with_options or rule])


@dataclass(frozen=True)
class Task:
    """One rule, or one family of models, and the seed that it is tried from."""

    plan: Plan
    rule: str
    seed: int


@dataclass(frozen=True)
class Found:
    """A finding, with the structure and size of the reduced model."""

    finding: Finding
    structure: str
    size: int


@dataclass(frozen=True)
class Tried:
    """What came of a task; ``failure`` says why nothing did."""

    report: FuzzReport
    found: tuple[Found, ...] = ()
    failure: str = ""


class Workshop:
    """Where tasks of a plan are done: rules are loaded once, and one process judges all cases."""

    def __init__(self, plan: Plan) -> None:
        self._targets = {} if plan.models else plan.targets()
        seconds = plan.effort.seconds
        self._worker = ModelWorker(seconds) if plan.models else Worker(list(self._targets.values()), seconds)
        self._one_by_one = threading.Lock()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    def do(self, task: Task) -> Tried:
        """Try a rule or a family; if that fails for another reason than passes, the others can still be tried."""
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
    """Do a task in a process that does others of its plan, too."""
    with _LOADING:
        workshop = _workshop(task.plan)
    return workshop.do(task)


@lru_cache(maxsize=1)
def _workshop(plan: Plan) -> Workshop:
    import_user_modules(plan.imports)
    return Workshop(plan)
