"""Tables for the terminal: what every pass did, what every rule did, and the model before and after."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnx_passes.core.records import ModelSize, RunRecord, Status, StepRecord


def show_run(record: RunRecord, *, rules: bool = False, console: Console | None = None) -> None:
    """Print the tables of a run on standard error."""
    console = console or Console(stderr=True, highlight=False)
    tables = [passes_table(record)] if record.steps else []
    if rules and any(step.rules for step in record.steps):
        tables.append(rules_table(record))
    for table in (*tables, model_table(record.before, record.after)):
        console.print(table)
        console.print()
    for step in record.steps:
        for note in step.notes:
            console.print(f"note: {step.name}: {note}", markup=False)
    console.print(_summary(record), markup=False)


def passes_table(record: RunRecord) -> Table:
    """Tabulate the steps: nodes, rewrites and time."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("pass")
    table.add_column("nodes", justify="right")
    table.add_column("Δ", justify="right")
    table.add_column("rewrites", justify="right")
    table.add_column("CPU ms", justify="right")
    table.add_column("")
    for step in record.steps:
        table.add_row(
            Text("  " * step.depth + step.text),
            str(step.nodes_after),
            signed(step.nodes_after - step.nodes_before),
            str(step.applications) if step.applications else "",
            f"{step.cpu * 1000:.1f}" if step.status is not Status.SKIPPED else "",
            Text(_remark(step), style="dim"),
        )
    return table


def rules_table(record: RunRecord) -> Table:
    """Tabulate the rules that were tried, the most expensive first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule")
    for name in ("tried", "matched", "applied", "ms"):
        table.add_column(name, justify="right")
    table.add_column("most refused because")
    rules = [rule for step in record.steps for rule in step.rules if rule.tried]
    for rule in sorted(rules, key=lambda rule: -rule.seconds):
        reason = rule.refused.most_common(1)
        table.add_row(
            Text(rule.name),
            str(rule.tried),
            str(rule.matched),
            str(rule.applied),
            f"{rule.seconds * 1000:.1f}",
            Text(f"{reason[0][0]} ({reason[0][1]}×)" if reason else "", style="dim"),
        )
    return table


def model_table(before: ModelSize, after: ModelSize) -> Table:
    """Tabulate operators, nodes, parameters and size, before and after."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (("operator", "left"), ("before", "right"), ("after", "right"), ("Δ", "right")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType]
    names = sorted({*before.operators, *after.operators}, key=lambda name: (-before.operators[name], name))
    for name in names:
        old, new = before.operators[name], after.operators[name]
        table.add_row(Text(name), str(old), str(new), signed(new - old), style="" if old != new else "dim")
    table.add_section()
    table.add_row("nodes", str(before.nodes), str(after.nodes), signed(after.nodes - before.nodes), style="bold")
    table.add_row(
        "parameters", f"{before.parameters:,}", f"{after.parameters:,}", signed(after.parameters - before.parameters)
    )
    table.add_row("weights", size_text(before.bytes), size_text(after.bytes), "")
    return table


def signed(number: int) -> str:
    """Print a difference; nothing for none."""
    return f"{number:+,}".replace("-", "−") if number else ""


def size_text(size: float) -> str:
    """Print a number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _remark(step: StepRecord) -> str:
    if step.status is Status.SKIPPED:
        return f"skipped: {step.reason}"
    if step.status is Status.FAILED:
        return "failed"
    return "" if step.modified or step.nodes_after != step.nodes_before else "unchanged"


def _summary(record: RunRecord) -> str:
    ran = sum(1 for step in record.leaves() if step.status is Status.DONE)
    changed = sum(1 for step in record.leaves() if step.modified)
    return (
        f"{ran} passes ran, {changed} changed the model, {record.applications} rewrites, "
        f"{record.cpu:.2f} s CPU ({record.wall:.2f} s)"
    )
