"""The proofs of the rewrites of a run as a table, the weakest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from onnx_passes.core.evidence import PRESERVED, STEP, Finding, RewriteProof
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.report.columns import Column
from onnx_passes.report.tables import Row, fitted_table, standard_error

_MOST = 40
"""So many rows are shown."""


def show_proofs(record: RunRecord, *, table: bool = False, console: Console | None = None) -> None:
    """Print on standard error how many rewrites are proved and, if asked for, a table of them."""
    console = console or standard_error()
    if table and record.applications:
        console.print(proofs_table(record, console.width))
        console.print()
    if line := proofs_line(record):
        console.print(line, markup=False)


def proofs_table(record: RunRecord, width: int) -> Table:
    """Tabulate rewrites with equal evidence together, with its basis."""
    columns = [
        Column("pass", shorten="end", least=12),
        Column("rewrite", shorten="end", least=12),
        Column("number", right=True),
        Column("evidence"),
        Column("because", shorten="wrap", least=20),
    ]
    groups: dict[tuple[str, str, str, str], list[RewriteProof]] = {}
    for step, proof in _rewrites(record):
        groups.setdefault((step.name, proof.rule, proof.level, proof.method or proof.reason), []).append(proof)
    ordered = sorted(groups.items(), key=lambda group: (_strength(group[0][2]), -len(group[1])))
    rows: list[Row] = []
    for (step, rule, level, how), proofs in ordered[:_MOST]:
        rows.append(([step, rule, str(len(proofs)), level or "not proved", _because(how, proofs)], ""))
    if len(ordered) > _MOST:
        rows.append(([f"… and {len(ordered) - _MOST} more", "", "", "", "--json lists them all"], "dim"))
    return fitted_table(columns, rows, width)


def proofs_line(record: RunRecord) -> str:
    """Count the rewrites of a run by their evidence."""
    counts = Counter(proof.level for _, proof in _rewrites(record))
    if not counts:
        return ""
    levels = sorted(filter(None, counts), key=_strength, reverse=True)
    known = [f"{counts[level]:,} {level}" for level in levels]
    missing = record.applications - sum(counts[level] for level in levels)
    return f"rewrites: {', '.join([*known, *([f'{missing:,} not proved'] if missing else [])])}"


def _strength(level: str) -> tuple[int, ...]:
    """Return a key that sorts levels, those without a proof first, then the weakest."""
    return tuple(-place for place in Finding.parse(level).rank) if level else (-len(PRESERVED),)


def _rewrites(record: RunRecord) -> Iterator[tuple[StepRecord, RewriteProof]]:
    return ((step, proof) for step in record.leaves() for proof in step.proofs if proof.application != STEP)


def _because(how: str, proofs: Sequence[RewriteProof]) -> str:
    """Name the method, the facts of one of the proofs, and the widest bound."""
    bounds = [proof.bound for proof in proofs if proof.bound is not None]
    facts = proofs[0].facts
    parts = [how, *(f"e.g. {fact}" if len(proofs) > 1 else fact for fact in facts[:1]), *facts[1:2]]
    return "; ".join([*parts, *([f"at most {max(bounds):.2g} off"] if bounds else [])])
