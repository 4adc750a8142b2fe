"""The models of a zoo that have to run: new, changed or lost ones, and those without a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from onnx_passes.zoo.contents import contents_of, digest_of
from onnx_passes.zoo.manifest import Deciding, Manifest, ModelRow, Run

_SETTLED = ("usage", "verification", "pass")
"""Kinds of deterministic failures: they would occur again."""


class Wanted(Protocol):
    """Model of a run: its name, its file, and the path of its result."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def source(self) -> Path: ...  # noqa: D102

    @property
    def target(self) -> Path: ...  # noqa: D102


W = TypeVar("W", bound=Wanted)


@dataclass(frozen=True)
class Policy:
    """The models to run again although nothing has changed."""

    again: bool = False
    retry_failed: bool = False


def pending(
    manifest: Manifest, wanted: Iterable[W], deciding: Deciding, policy: Policy
) -> tuple[list[W], Counter[str]]:
    """Return the models that have to run, and the number for each reason."""
    rows, runs = manifest.rows(), manifest.runs()
    found: list[W] = []
    reasons: Counter[str] = Counter()
    for one in wanted:
        why = "asked for again" if policy.again else _why(manifest, rows.get(one.name), runs, one, deciding, policy)
        if why:
            found.append(one)
            reasons[why] += 1
    return found, reasons


def drop_gone(manifest: Manifest, wanted: Iterable[Wanted]) -> list[str]:
    """Drop models that are not requested and whose file is gone, and return their names."""
    asked = {one.name for one in wanted}
    gone = [name for name, row in manifest.rows().items() if name not in asked and not Path(row.source).exists()]
    manifest.forget(gone)
    return gone


def _why(
    manifest: Manifest,
    row: ModelRow | None,
    runs: Mapping[int, Run],
    one: Wanted,
    deciding: Deciding,
    policy: Policy,
) -> str:
    """Return the reason why a model has to run; empty if it need not."""
    if row is None:
        return "new"
    made_by = runs[row.run].deciding
    for what in ("pipeline", "options", "versions"):
        if getattr(made_by, what) != getattr(deciding, what):
            return f"other {what}"
    source = contents_of(one.source, row.source_files)
    if digest_of(source) != row.source_digest:
        return "model changed"
    if not row.is_written:
        if row.status == "lost" or row.kind not in _SETTLED:
            return "lost" if row.status == "lost" else "failed by itself"
        return "failed" if policy.retry_failed else ""
    output = contents_of(one.target, row.output_files)
    if digest_of(output) != row.output_digest:
        return "result changed or gone"
    if (source, output) != (row.source_files, row.output_files):
        # The same content with other times: record them, so that the next run need not read it again.
        manifest.record(replace(row, source_files=source, output_files=output))
    return ""
