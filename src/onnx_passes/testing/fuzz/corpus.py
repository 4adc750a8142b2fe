"""The corpus: models on which a rule has failed, stored as text with their data, and tried first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.atomic import replacing
from onnx_passes.graph.text import from_text
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.generate import case_of_model
from onnx_passes.testing.fuzz.report import Finding, FuzzReport
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.trial import finding_of
from onnx_passes.testing.fuzz.worker import Worker

_MODEL, _DATA = ".onnxtxt", ".npz"
_PIPELINE = "pipeline: "


class Corpus:
    """Folder with files such as ``move-relu-SHAPE-1f2e3d4c.onnxtxt`` and, if data matter, ``….npz``."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise UsageError("this is not a folder", where=str(folder), hint="name a folder for models that fail")
        self._folder = folder

    def file_of(self, rule: str, kind: str, structure: str) -> Path:
        """Return the file of a failure."""
        return self._folder / f"{_stem(rule)}-{kind}-{structure}{_MODEL}"

    def keep(self, finding: Finding, structure: str, command: str = "") -> Path:
        """Store a failure, replacing one with the same structure; ``command`` reproduces it."""
        path = self.file_of(finding.rule, finding.kind, structure)
        pipeline = [f"{_PIPELINE}{finding.pipeline}"] if finding.pipeline else []
        lines = [*([command, *finding.message.splitlines()] if command else []), *pipeline]
        about = "".join(f"# {line}\n" for line in lines)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write((about + finding.model_text).encode())
            path.with_suffix(_DATA).unlink(missing_ok=True)
            if finding.feed:
                with replacing(path.with_suffix(_DATA)) as file:
                    cast(Any, np.savez)(file, **_storable(finding.feed))
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=str(path)) from error
        return path

    def cases(self, rule: str) -> Iterator[tuple[Path, Case]]:
        """Read the failures of a rule."""
        for path in sorted(self._folder.glob(f"*{_MODEL}")):
            if re.fullmatch(rf"{re.escape(_stem(rule))}-[A-Z]+-[0-9a-f]+", path.stem):
                yield path, self._read(path)

    def judged(self) -> Iterator[tuple[Path, Case, str]]:
        """Read the models on which a pipeline has failed, with the pipeline."""
        for path in sorted(self._folder.glob(f"*{_MODEL}")):
            found = re.search(rf"^# {_PIPELINE}(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            if found is not None:
                yield path, self._read(path), found[1]

    def replay(self, target: FuzzTarget, worker: Worker, report: FuzzReport) -> bool:
        """Run the known failures of a rule, and return whether one still fails."""
        for _, case in self.cases(target.name):
            verdict = worker.judge(target, case)
            report.cases += verdict.outcome != "skipped"
            report.matches += verdict.outcome in ("fine", "finding")
            report.skipped += verdict.outcome == "skipped"
            if verdict.outcome == "finding":
                report.findings.append(finding_of(target, verdict, case))
        return bool(report.findings)

    def _read(self, path: Path) -> Case:
        model: onnx.ModelProto = from_text(path.read_text(encoding="utf-8"), str(path))
        plain = case_of_model(model, seed=0)
        data = path.with_suffix(_DATA)
        if not data.exists():
            return plain
        try:
            with np.load(data, allow_pickle=False) as arrays:
                given = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError) as error:
            raise UsageError(f"these data cannot be read: {error}", where=str(data)) from error
        types = {item.name: item.dtype.numpy() for item in plain.inputs}
        given = {name: _restored(array, types.get(name)) for name, array in given.items()}
        return Case(plain.model, plain.inputs, given=given)


def _storable(feed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array.astype(np.str_) if array.dtype == object else array for name, array in feed.items()}


def _restored(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Restore types that numpy does not know, of which the file format only keeps the bytes."""
    if array.dtype.kind == "U":
        return array.astype(object)
    return array.view(dtype) if array.dtype.kind == "V" and dtype is not None else array


def _stem(rule: str) -> str:
    return re.sub(r"[^0-9A-Za-z_]+", "-", rule)
