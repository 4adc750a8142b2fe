"""Compare two runs over a zoo: regressions and improvements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.core.evidence import UNVERIFIED, is_weaker
from onnx_passes.core.text import size_text
from onnx_passes.zoo.manifest import ModelRow, read

Rows = Mapping[str, ModelRow]


@dataclass(frozen=True)
class DifferenceThresholds:
    """Thresholds of a difference: times are noisy, and sizes depend on names.

    A model is slower if it takes ``time`` times as long and at least ``seconds`` longer; it is larger by the factor
    ``size``. The same in the other direction is an improvement.
    """

    time: float = 1.5
    seconds: float = 0.5
    size: float = 1.01

    def __post_init__(self) -> None:
        for name, value, least in (("time", self.time, 1), ("seconds", self.seconds, 0), ("size", self.size, 1)):
            if not value >= least:
                raise UsageError(f"the threshold of {name} is too small: {value:g}", hint=f"use {least} or more")


@dataclass(frozen=True)
class ModelDifference:
    """Change of one model: status, evidence, nodes, time or size."""

    model: str
    what: str
    old: str
    new: str
    is_worse: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"model": self.model, "what": self.what, "old": self.old, "new": self.new}


@dataclass(frozen=True)
class ZooComparison:
    """Regressions and improvements from one run to another, and models that are new, missing or changed."""

    old: Path
    new: Path
    differences: tuple[ModelDifference, ...]
    both: int
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    changed: tuple[str, ...]
    totals: Mapping[str, tuple[float, float]]

    @property
    def worse(self) -> list[ModelDifference]:
        """Return the regressions."""
        return [one for one in self.differences if one.is_worse]

    @property
    def better(self) -> list[ModelDifference]:
        """Return the improvements."""
        return [one for one in self.differences if not one.is_worse]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "old": str(self.old),
            "new": str(self.new),
            "models_in_both": self.both,
            "worse": [one.to_json() for one in self.worse],
            "better": [one.to_json() for one in self.better],
            "only_old": list(self.only_old),
            "only_new": list(self.only_new),
            "changed_models": list(self.changed),
            "totals": {name: list(pair) for name, pair in self.totals.items()},
        }


def compare_folders(old: Path, new: Path, thresholds: DifferenceThresholds) -> ZooComparison:
    """Compare the manifests of two folders of results."""
    if old.resolve() == new.resolve():
        raise UsageError(
            "a run cannot be compared with itself", where=str(old), hint="name the folder of an earlier run"
        )
    with read(old) as manifest:
        before = manifest.rows()
    with read(new) as manifest:
        after = manifest.rows()
    both = sorted(before.keys() & after.keys())
    only_new = sorted(after.keys() - before.keys())
    found = [one for name in both for one in _differences(before[name], after[name], thresholds)]
    # A new model that fails must be reported now: in later comparisons it is no change.
    bad = [after[name] for name in only_new if after[name].status != "ok"]
    found += [ModelDifference(row.model, "status", "", _status(row), True) for row in bad]
    return ZooComparison(
        old,
        new,
        tuple(found),
        len(both),
        tuple(sorted(before.keys() - after.keys())),
        tuple(only_new),
        tuple(name for name in both if before[name].source_digest != after[name].source_digest),
        _totals(before, after, both),
    )


def _differences(old: ModelRow, new: ModelRow, thresholds: DifferenceThresholds) -> Iterator[ModelDifference]:
    """Compare the results of one model; nodes, evidence, size and time only if the model is unchanged."""
    if old.is_written != new.is_written:
        yield ModelDifference(new.model, "status", _status(old), _status(new), old.is_written)
    if not (old.is_written and new.is_written) or old.source_digest != new.source_digest:
        return

    def difference(what: str, texts: list[str], is_worse: bool) -> ModelDifference:
        before, after = texts
        return ModelDifference(new.model, what, before, after, is_worse)

    levels = [level or UNVERIFIED for level in (old.evidence, new.evidence)]
    if levels[0] != levels[1]:
        yield difference("evidence", levels, is_weaker(levels[1], levels[0]))
    nodes = [_number(old, "nodes"), _number(new, "nodes")]
    if nodes[0] != nodes[1]:
        yield difference("nodes", [str(number) for number in nodes], nodes[1] > nodes[0])
    sizes = [_number(old, "bytes"), _number(new, "bytes")]
    if max(sizes) > thresholds.size * min(sizes):
        yield difference("size", [size_text(size) for size in sizes], sizes[1] > sizes[0])
    times = [old.cpu_seconds, new.cpu_seconds]
    if max(times) > max(thresholds.time * min(times), min(times) + thresholds.seconds):
        yield difference("time", [f"{seconds:.2f} s" for seconds in times], times[1] > times[0])


def _status(row: ModelRow) -> str:
    return row.status if row.status == "ok" else f"{row.status}: {row.message}"


def _number(row: ModelRow, what: str) -> int:
    return getattr(row, f"{what}_after") or 0


def _totals(before: Rows, after: Rows, names: list[str]) -> dict[str, tuple[float, float]]:
    """Sum the figures of models that succeeded in both runs."""
    well = [name for name in names if before[name].is_written and after[name].is_written]

    def total(what: str) -> tuple[float, float]:
        old, new = (sum(getattr(rows[name], what) or 0 for name in well) for rows in (before, after))
        return old, new

    def count(statuses: tuple[str, ...]) -> tuple[float, float]:
        old, new = (sum(rows[name].status in statuses for name in names) for rows in (before, after))
        return old, new

    return {
        "failed": count(("failed", "lost")),
        "unverified": count(("unverified",)),
        "nodes": total("nodes_after"),
        "bytes": total("bytes_after"),
        "cpu_seconds": total("cpu_seconds"),
    }
