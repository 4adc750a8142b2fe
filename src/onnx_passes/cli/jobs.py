"""Runs over several models: their input files and output files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from onnx_passes.cli.words import names_folder
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.origin import FORMATS

_MODEL = "*.onnx"
_SIGNS = "*?["


@dataclass(frozen=True)
class Job:
    """Model to run passes on, and the path of its result; ``name`` is unique."""

    name: str
    source: Path
    target: Path


def jobs_of(models: Sequence[str], folder: str | None) -> list[Job]:
    """List the models to run: each file, and each model in a folder, under its relative path.

    Without a folder for results, each model is overwritten. Before anything starts, two results with the same path, or
    a result that would overwrite another input, are refused.
    """
    if "-" in models:
        raise UsageError("standard input cannot be one of several models", hint="name files and folders")
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError("several models cannot be written to one file", where=folder, hint="name a folder with -o")
    if folder is not None and Path(folder).suffix.lower() in FORMATS and not names_folder(folder):
        raise UsageError(
            f"{folder} names a single file, but several models are given",
            hint=f"name a folder with -o, or write '{folder}/' for a folder of that name",
        )
    found = [job for model in models for job in _of(Path(model), None if folder is None else Path(folder))]
    if folder is not None:
        _refuse_clashes(found)
    return list({job.source.resolve(): job for job in found}.values())


def _of(model: Path, folder: Path | None) -> Iterator[Job]:
    if not model.exists() and any(sign in str(model) for sign in _SIGNS):
        yield from _matching(model, folder)
        return
    if not model.is_dir():
        yield Job(model.name, model, model if folder is None else folder / model.name)
        return
    inside = sorted(path for path in model.rglob(_MODEL) if path.is_file() and not _is_below(path, folder, model))
    if not inside:
        raise UsageError("there is no model in this folder", where=str(model), hint=f"looked for {_MODEL}, recursively")
    for path in inside:
        place = path.relative_to(model)
        yield Job(str(place), path, path if folder is None else folder / place)


def _matching(pattern: Path, folder: Path | None) -> Iterator[Job]:
    """List the models that match a pattern, with their path relative to its fixed part."""
    fixed = list(takewhile(lambda part: not any(sign in part for sign in _SIGNS), pattern.parts))
    base, rest = Path(*fixed), str(Path(*pattern.parts[len(fixed) :]))
    found = sorted(path for path in base.glob(rest) if path.suffix.lower() in FORMATS and path.is_file())
    found = [path for path in found if not _is_below(path, folder, base)]
    if not found:
        raise UsageError("no model matches this pattern", where=str(pattern), hint="'**' matches folders at any depth")
    for path in found:
        place = path.relative_to(base)
        yield Job(str(place), path, path if folder is None else folder / place)


def _is_below(path: Path, folder: Path | None, model: Path) -> bool:
    """Return whether a file is a result of an earlier run in the folder of results."""
    below = folder is not None and folder.resolve() != model.resolve()
    return below and folder is not None and path.resolve().is_relative_to(folder.resolve())


def _refuse_clashes(jobs: Iterable[Job]) -> None:
    taken: dict[Path, Job] = {}
    sources = {job.source.resolve() for job in jobs}
    for job in jobs:
        target = job.target.resolve()
        if target in sources:
            raise UsageError(
                f"models are read from this folder: {job.target.name} would be overwritten",
                where=str(job.target.parent),
                hint="name another one, or use --in-place",
            )
        other = taken.setdefault(target, job)
        if other is not job and other.source.resolve() != job.source.resolve():
            raise UsageError(
                f"{other.source} and {job.source} would both be written here",
                where=str(job.target),
                hint="name their common folder, whose structure is kept",
            )
