"""A run in one line, and runs over several models in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from onnx_passes.core.text import size_text

if TYPE_CHECKING:
    from rich.table import Table

    from onnx_passes.core.records import RunRecord
    from onnx_passes.report.tables import Row

Pair = tuple[int, int]
"""A number before and after."""


@dataclass(frozen=True)
class RunSummary:
    """The effects of a run on a model: nodes, bytes and operator set before and after, its cost and its evidence."""

    nodes: Pair
    bytes: Pair
    opset: tuple[int | None, int | None]
    cpu: float
    level: str
    obstacle: str = ""
    """Why the run could not be verified."""

    @classmethod
    def of(cls, record: RunRecord, stored: Pair | None = None) -> Self:
        """Return the summary of a run; sizes are those of the files if ``stored``, else those of the weights."""
        before, after = record.before, record.after
        sizes = stored or (before.bytes, after.bytes)
        return cls(
            (before.nodes, after.nodes), sizes, (before.opset, after.opset), record.cpu, record.level, record.obstacle
        )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read a summary from its ``vars``."""
        nodes, size, opset = (tuple(data[key]) for key in ("nodes", "bytes", "opset"))
        return cls(nodes, size, opset, data["cpu"], data["level"], data.get("obstacle", ""))

    def line(self, name: str) -> str:
        """Return the summary in one line."""
        parts = [self.nodes_text, self.bytes_text, self._opset, f"{self.cpu:.1f} s", self.evidence]
        return f"{name}: {', '.join(filter(None, parts))}"

    def warning(self, name: str) -> str:
        """Return a warning about an unverified result; empty if it was verified, or verification is off."""
        return f"warning: {name} could not be verified: {self.obstacle.splitlines()[0]}" if self.obstacle else ""

    @property
    def nodes_text(self) -> str:
        """Return the numbers of nodes before and after, and the change in percent."""
        before, after = self.nodes
        change = f" ({100 * (after - before) / before:+.0f} %)".replace("-", "−") if before and after != before else ""
        return f"{before} → {after} nodes{change}"

    @property
    def bytes_text(self) -> str:
        """Return the sizes before and after, with one unit if they have the same."""
        before, after = map(size_text, self.bytes)
        number, _, unit = before.partition(" ")
        return f"{number if after.endswith(f' {unit}') else before} → {after}"

    @property
    def evidence(self) -> str:
        """Describe the level of evidence that the results are equal."""
        words = {"": "not verified", "unverified": "not verified", "unchanged": "unchanged"}
        return words.get(self.level, f"verified: {self.level}")

    @property
    def _opset(self) -> str:
        before, after = self.opset
        return "" if after is None else f"opset {after}" if before == after else f"opset {before} → {after}"


def models_table(rows: Sequence[tuple[str, RunSummary | None, str]], width: int) -> Table:
    """Tabulate models by name, each with the effects of its run, and its status."""
    from onnx_passes.report.columns import Column
    from onnx_passes.report.tables import fitted_table

    columns = [
        Column("model", shorten="front", least=16),
        Column("nodes", right=True),
        Column("Δ", right=True),
        Column("size", right=True, spare=1),
        Column("CPU s", right=True),
        Column("evidence", spare=2),
        Column("status", shorten="end", least=16),
    ]
    return fitted_table(columns, [_row(*row) for row in rows], width)


def _row(name: str, made: RunSummary | None, status: str) -> Row:
    if made is None:
        return [name, "", "", "", "", "", status], "red"
    before, after = made.nodes
    change = f"{after - before:+,}".replace("-", "−") if after != before else ""
    cells = [name, f"{before} → {after}", change, made.bytes_text, f"{made.cpu:.1f}", made.evidence, status]
    return cells, ""
