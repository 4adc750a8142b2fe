"""The journal of campaigns: the rules that ran, by seed and version, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.testing.fuzz.tasks import Found, Tried

_NAME = "campaign.jsonl"


@dataclass(frozen=True)
class Noted:
    """Finding in the journal: its kind, structure and size of the reduced model, and the wrong rule."""

    kind: str
    structure: str
    size: int
    message: str
    rule: str = ""


@dataclass(frozen=True)
class Entry:
    """Task that was done."""

    rule: str
    seed: int
    cases: int
    matches: int
    skipped: int
    seconds: float
    findings: tuple[Noted, ...] = ()
    disputed: int = 0

    @staticmethod
    def of(tried: Tried, seed: int) -> Entry:
        """Return the entry for the result of a task."""
        report = tried.report
        noted = [_noted(found) for found in tried.found]
        counts = (report.cases, report.matches, report.skipped, round(report.seconds, 3))
        return Entry(report.rule, seed, *counts, tuple(noted), report.disputed)


def _noted(found: Found) -> Noted:
    finding = found.finding
    return Noted(str(finding.kind), found.structure, found.size, finding.message, finding.rule)


class Journal:
    """File that grows by a line with every task; an incomplete last line is ignored."""

    def __init__(self, folder: Path, version: str) -> None:
        self._path = folder / _NAME
        self._version = version

    def entries(self) -> Iterator[Entry]:
        """Read the entries of this version."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"cannot be read: {error.strerror}", where=str(self._path)) from error
        for line in lines:
            entry = self._entry(line)
            if entry is not None:
                yield entry

    def add(self, entry: Entry) -> None:
        """Write a line atomically."""
        line = json.dumps({"version": self._version, **asdict(entry)}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b", buffering=0) as file:
                end = file.tell()
                file.seek(max(0, end - 1))
                is_cut = end > 0 and file.read(1) != b"\n"
                file.write(("\n" * is_cut + line).encode())
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=str(self._path)) from error

    def _entry(self, line: str) -> Entry | None:
        try:
            known: dict[str, Any] = json.loads(line)
            if known.pop("version") != self._version:
                return None
            findings = tuple(Noted(**noted) for noted in known.pop("findings"))
            return Entry(**known, findings=findings)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
