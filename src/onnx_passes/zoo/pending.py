"""Which models of a zoo have to run: those that are new or changed, whose result is gone, or that were lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from onnx_passes.zoo.contents import contents_of, digest_of
from onnx_passes.zoo.manifest import Deciding, Manifest, ModelRow, Run

_SETTLED = ("usage", "verification", "pass")
"""Kinds of failures that the model, the pipeline and the options decide about: they would come again."""


class Wanted(Protocol):
    """A model that is asked for: its name, where it is read, and where its result goes."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def source(self) -> Path: ...  # noqa: D102

    @property
    def target(self) -> Path: ...  # noqa: D102


W = TypeVar("W", bound=Wanted)


@dataclass(frozen=True)
class Policy:
    """Which models run again although nothing has changed."""

    again: bool = False
    retry_failed: bool = False


def pending(
    manifest: Manifest, wanted: Iterable[W], deciding: Deciding, policy: Policy
) -> tuple[list[W], Counter[str]]:
    """Return the models that have to run, and how many of them for which reason."""
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
    """Forget models that are not asked for and whose file is gone; returns their names."""
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
    """Say why a model has to run, or nothing."""
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
        # The same content with other times: the next run need not read it again.
        manifest.record(replace(row, source_files=source, output_files=output))
    return ""
