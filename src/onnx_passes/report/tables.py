"""Tables for the terminal: what every pass did, what every rule did, and the model before and after."""

from __future__ import annotations

import math
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnx_passes.core.pipeline import without_body
from onnx_passes.core.records import ModelSize, RunRecord, Status, StepRecord


def show_run(record: RunRecord, *, rules: bool = False, console: Console | None = None) -> None:
    """Print the tables of a run on standard error."""
    console = console or standard_error()
    tables = step_tables(record, console) if record.steps else []
    if rules and any(step.rules for step in record.steps):
        tables.append(rules_table(record))
    for table in (*tables, model_table(record.before, record.after)):
        console.print(table)
        console.print()
    for step in record.steps:
        for note in step.notes:
            console.print(f"note: {step.name}: {note}", markup=False)
    for reason in dict.fromkeys(_reasons(record)):
        console.print(f"not verified: {reason}", markup=False)
    if record.metrics_note:
        console.print(f"metrics: {record.metrics_note}", markup=False)
    console.print(_summary(record), markup=False)


def step_tables(record: RunRecord, console: Console) -> list[Table]:
    """Tabulate the steps, with metrics in a table of their own where one is too wide."""
    table = passes_table(record)
    unbounded = console.options.update(max_width=sys.maxsize)
    if not record.metrics or console.measure(table, options=unbounded).maximum <= console.width:
        return [table]
    return [passes_table(record, metrics=False), metrics_table(record)]


def standard_error() -> Console:
    """Write to standard error; a file has no width that lines would have to be broken to."""
    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else 200)


def passes_table(record: RunRecord, *, metrics: bool = True) -> Table:
    """Tabulate the steps: nodes, rewrites, time and, where they are measured, metrics with their change."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("pass")
    table.add_column("nodes", justify="right")
    table.add_column("Δ", justify="right")
    table.add_column("rewrites", justify="right")
    table.add_column("CPU ms", justify="right")
    measured = record.metrics if metrics else {}
    for name in measured:
        table.add_column(Text(name), justify="right")
    table.add_column("evidence")
    table.add_column("")
    if measured:
        baseline = [Text(metric_text(value)) for value in measured.values()]
        table.add_row("(original)", str(record.before.nodes), "", "", "", *baseline, "", "", style="dim")
    for step in record.steps:
        if _is_no_news(step):
            continue
        table.add_row(
            Text("  " * step.depth + without_body(step.text)),
            str(step.nodes_after),
            signed(step.nodes_after - step.nodes_before),
            str(step.applications) if step.applications else "",
            f"{step.cpu * 1000:.1f}" if step.status is not Status.SKIPPED else "",
            *(_metric_with_change(step, name, value) for name, value in measured.items()),
            Text(evidence_text(step)),
            Text(_remark(step), style="dim"),
        )
    return table


def _is_no_news(step: StepRecord) -> bool:
    """Tell whether a step held already, or is part of a sequence and changed nothing."""
    if step.status is Status.SKIPPED:
        return step.why.startswith("needed")
    return step.depth > 0 and step.status is Status.DONE and not step.modified and not step.notes


def metrics_table(record: RunRecord) -> Table:
    """Tabulate the metrics of the original model and of every step that was measured."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("measured after")
    for name in record.metrics:
        table.add_column(Text(name), justify="right")
    table.add_row("(original)", *(Text(metric_text(value)) for value in record.metrics.values()), style="dim")
    for step in record.steps:
        if step.metrics:
            changes = (_metric_with_change(step, name, value) for name, value in record.metrics.items())
            table.add_row(Text(step.text), *changes)
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


def evidence_text(step: StepRecord) -> str:
    """Say in a few words how well it is known that a step kept the results."""
    evidence = step.evidence
    if evidence is None or evidence.level == "unchanged":
        return ""
    if evidence.level == "sampled":
        text = "bit-equal"
    elif evidence.level == "tolerance":
        text = f"within {evidence.max_abs:.1e}" if evidence.max_abs is not None else "within tolerance"
    else:
        return evidence.level
    if evidence.samples:
        text += f" on {evidence.samples} sample{'s' if evidence.samples > 1 else ''}"
    elif evidence.reason:
        text += ", with later steps"
    return f"{text}, each rewrite too" if evidence.windows else text


def metric_text(value: float) -> str:
    """Print the value of a metric."""
    return f"{value:.4g}".replace("-", "−")


def _metric_with_change(step: StepRecord, name: str, baseline: float) -> Text:
    """Print the value after a step, and its change against the model as it came."""
    if name not in step.metrics:
        return Text("")
    value = step.metrics[name]
    change = value - baseline
    if not baseline or not change or not math.isfinite(change):
        return Text(metric_text(value))
    return Text(f"{metric_text(value)} ({change:+.2g})".replace("-", "−"))


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


def _reasons(record: RunRecord) -> list[str]:
    found = [step.evidence for step in record.steps if step.evidence is not None]
    return [evidence.reason for evidence in found if evidence.level == "unverified" and evidence.reason]


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
