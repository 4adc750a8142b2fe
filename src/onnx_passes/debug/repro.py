"""Run the reproducer of a failure again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_passes.check.blame.reproducer import Reproducer, read_reproducer, versions
from onnx_passes.check.verification import Limits
from onnx_passes.core.errors import UsageError
from onnx_passes.core.imports import import_user_modules, nothing_from
from onnx_passes.core.plan import Plan, plan
from onnx_passes.debug.reduce.interesting import Observation, fails_by_pipeline, kind_of_failure, require_running
from onnx_passes.verify.run.execute import Executor


@dataclass(frozen=True)
class Repetition:
    """Result of running a reproducer: the current failure, if any, and differences from the original one."""

    pipeline: str
    error: Exception | None
    notes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Return whether the failure still occurs."""
        return self.error is not None

    def __str__(self) -> str:
        verdict = str(self.error) if self.error is not None else f"'{self.pipeline}' no longer fails"
        return "\n".join([verdict, *(f"note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        failure = getattr(self.error, "failure", None)
        return {
            "pipeline": self.pipeline,
            "fails": self.fails,
            "error": None if self.error is None else str(self.error),
            "failure": None if failure is None else failure.to_json(),
            "notes": list(self.notes),
        }


def repeat(folder: Path, *, imports: Sequence[str] = ()) -> Repetition:
    """Run the pipeline of a folder on its model and inputs again.

    ``imports`` are modules and files with passes; modules that the folder names are imported only if a pass is unknown
    without them. Raises UsageError if the folder, or a pass, does not exist.
    """
    kept = read_reproducer(folder)
    if not kept.pipeline:
        raise UsageError(
            "this is the reproducer of a command, not of a pipeline",
            where=str(folder),
            hint=f"run it on the model: {kept.report.get('command', '')}",
        )
    import_user_modules(imports)
    planned = planned_again(kept)
    limits = Limits(*kept.tolerance) if kept.tolerance is not None else None
    executor = Executor()
    if kept.samples:
        require_running(kept.model, kept.samples, executor)
    seen = fails_by_pipeline(planned, limits, executor=executor).observe(kept.model, kept.samples)
    notes = [*_changed_kind(kept, seen), *_changed_versions(kept)]
    return Repetition(kept.pipeline, None if seen is None else seen.error, tuple(notes))


def planned_again(kept: Reproducer) -> Plan:
    """Plan the pipeline of a folder, importing modules that the folder names only if a pass is unknown."""
    try:
        return plan(kept.pipeline)
    except UsageError:
        if not kept.imports:
            raise
    _import_recorded(kept)
    return plan(kept.pipeline)


def _import_recorded(kept: Reproducer) -> None:
    """Import modules of the report if they are installed, or outside the folder: a received folder is data."""
    unsafe = {"this folder": kept.folder, "the current folder": Path()}
    for name in kept.imports:
        for label, folder in unsafe.items():
            if _is_inside(name, folder):
                raise UsageError(
                    f"the report wants to import '{name}' from {label}",
                    where=str(kept.folder),
                    hint=f"if you trust it, add --import {name}",
                )
        try:
            if _is_file(name):
                import_user_modules([name])
            else:
                with nothing_from(*unsafe.values()):
                    importlib.import_module(name)
        except Exception as error:
            raise UsageError(
                f"the passes came from '{name}', which cannot be imported here",
                where=str(kept.folder),
                hint="name the file that has them with --import",
            ) from error


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def _is_inside(name: str, folder: Path) -> bool:
    """Return whether an import would run code of a folder."""
    home = folder.resolve()
    if _is_file(name):
        return Path(name).resolve().is_relative_to(home)
    first = name.split(".")[0]
    return first not in sys.modules and ((home / f"{first}.py").exists() or (home / first).is_dir())


def _changed_kind(kept: Reproducer, seen: Observation | None) -> list[str]:
    claim, difference = (str(kept.report.get(key, "")) for key in ("claim", "difference"))
    if seen is None or not claim:
        return []
    then, now = kind_of_failure(claim, difference), seen.symptom.kind
    return [] if then == now else [f"this is another failure: it was '{then}' when it was kept, and is '{now}' now"]


def _changed_versions(kept: Reproducer) -> list[str]:
    now = versions()
    return [
        f"{name} was {old} when the failure was kept, and is {now.get(name, 'not installed')} now"
        for name, old in kept.versions.items()
        if now.get(name) != old
    ]
