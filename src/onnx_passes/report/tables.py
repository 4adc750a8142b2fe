"""Tables for the terminal: the effects of every pass and every rule, and the model before and after."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnx_passes.core.evidence import UNCHANGED, UNVERIFIED, findings_in
from onnx_passes.core.naming import fold
from onnx_passes.core.pipeline import without_body
from onnx_passes.core.records import InferenceTime, ModelSize, RuleRecord, RunRecord, Status, StepRecord
from onnx_passes.core.text import size_text
from onnx_passes.graph.wording import count
from onnx_passes.report.columns import Column, cell_lines, fit, pass_cell, width_of, with_names_apart

_WIDE = 100
_MOST_ALONE = 5
"""From here on evidence is told in full."""


Row = tuple[Sequence[str], str]
"""Cells, and the style of all of them."""


def show_run(record: RunRecord, *, rules: bool = False, console: Console | None = None) -> None:
    """Print the tables of a run on standard error."""
    console = console or standard_error()
    tables = step_tables(record, console) if record.steps else []
    if rules and any(step.rules for step in record.steps):
        tables.append(rules_table(record, console.width))
    for table in (*tables, model_table(record.before, record.after, console.width)):
        console.print(table)
        console.print()
    for note in dict.fromkeys(f"{step.name}: {note}" for step in record.steps for note in step.notes):
        console.print(f"note: {note}", markup=False)
    for reason in dict.fromkeys(_reasons(record)):
        console.print(f"not verified: {reason}", markup=False)
    for told in _alone(record):
        console.print(f"not reached by samples: {told}", markup=False)
    if record.coverage is not None:
        console.print(f"coverage by samples: {record.coverage}", markup=False)
    if record.metrics_note:
        console.print(f"metrics: {record.metrics_note}", markup=False)
    if record.inference is not None:
        console.print(f"inference: {inference_text(record.inference)}", markup=False)
    console.print(_summary(record), markup=False)


def step_tables(record: RunRecord, console: Console) -> list[Table]:
    """Tabulate the steps; metrics get a separate table if one table is too wide."""
    columns, rows = _steps(record, dict(record.metrics), console.width)
    if not record.metrics or sum(_widest(columns, rows)) + 2 * (len(columns) - 1) <= console.width:
        return [fitted_table(columns, rows, console.width)]
    return [fitted_table(*_steps(record, {}, console.width), console.width), metrics_table(record, console.width)]


def _widest(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    return fit(columns, [cells for cells, _ in rows], sys.maxsize)


def standard_error() -> Console:
    """Write to standard error; a file has no width that lines would have to be broken to."""
    return Console(stderr=True, highlight=False, width=width_of(sys.stderr, 200))


def fitted_table(columns: Sequence[Column], rows: Sequence[Row], width: int) -> Table:
    """Lay out rows so that they fit into a width; widths are settled here, not by rich, which would cut numbers."""
    widths = fit(columns, [cells for cells, _ in rows], width, cut=True)
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [index for index, size in enumerate(widths) if size]
    for index in shown:
        column = columns[index]
        table.add_column(
            Text(column.title), justify="right" if column.right else "left", no_wrap=True, min_width=widths[index]
        )
    styles = [style for _, style in rows]
    for cells, style in zip(with_names_apart(columns, [cells for cells, _ in rows], widths), styles, strict=True):
        lines = (cell_lines(columns[index], cells[index], widths[index]) for index in shown)
        table.add_row(*(Text("\n".join(each)) for each in lines), style=style)
    return table


def _steps(record: RunRecord, measured: Mapping[str, float], width: int) -> tuple[list[Column], list[Row]]:
    """Tabulate the steps: nodes, rewrites, time and, where they are measured, metrics with their change."""
    columns = [
        Column("pass", shorten="wrap", least=34),
        Column("nodes", right=True),
        Column("Δ", right=True),
        Column("rewrites", right=True),
        Column("CPU ms", right=True),
        *(Column(name, right=True) for name in measured),
        Column("evidence", shorten="wrap", least=14),
    ]
    rows: list[Row] = []
    if measured:
        baseline = [metric_text(value) for value in measured.values()]
        rows.append((["(original)", str(record.before.nodes), "", "", "", *baseline, ""], "dim"))
    for step in record.steps:
        if is_no_news(step):
            continue
        evidence = evidence_text(step, short=width < _WIDE)
        cells = [
            pass_cell(step.text, step.depth),
            str(step.nodes_after),
            signed(step.nodes_after - step.nodes_before),
            str(step.applications) if step.applications else "",
            f"{step.cpu * 1000:.1f}" if step.status is not Status.SKIPPED else "",
            *(_metric_with_change(step, name, value) for name, value in measured.items()),
            "; ".join(filter(None, (evidence, _remark(step)))),
        ]
        rows.append((cells, "" if step.modified or step.status is Status.FAILED else "dim"))
    return columns, rows


def is_no_news(step: StepRecord) -> bool:
    """Return whether a step was already satisfied, or is part of a sequence and changed nothing."""
    if step.status is Status.SKIPPED:
        return step.why.startswith("needed")
    return step.depth > 0 and step.status is Status.DONE and not step.modified and not step.notes


def metrics_table(record: RunRecord, width: int) -> Table:
    """Tabulate the metrics of the original model and of every step that was measured."""
    columns = [Column("measured after", shorten="wrap", least=20), *(Column(n, right=True) for n in record.metrics)]
    rows: list[Row] = [(["(original)", *map(metric_text, record.metrics.values())], "dim")]
    for step in record.steps:
        if step.metrics:
            changes = (_metric_with_change(step, name, value) for name, value in record.metrics.items())
            rows.append(([without_body(step.text), *changes], ""))
    return fitted_table(columns, rows, width)


def rules_table(record: RunRecord, width: int) -> Table:
    """Tabulate the rules that were tried, the most expensive first, each with its pass."""
    columns = [
        Column("pass"),
        Column("rule", shorten="end", least=12, spare=1),
        *(Column(name, right=True) for name in ("tried", "matched", "applied", "ms")),
        Column("most refused because", shorten="wrap", least=20, spare=2),
    ]
    rows: list[Row] = []
    for owner, rule in sorted(_totals(record), key=lambda total: -total[1].seconds):
        reason = rule.refused.most_common(1)
        cells = [
            owner,
            "" if fold(rule.name) == fold(owner) else rule.name,
            *map(str, (rule.tried, rule.matched, rule.applied)),
            f"{rule.seconds * 1000:.1f}",
            f"{reason[0][0]} ({reason[0][1]}×)" if reason else "",
        ]
        rows.append((cells, "" if rule.applied else "dim"))
    return fitted_table(columns, rows, width)


def _totals(record: RunRecord) -> list[tuple[str, RuleRecord]]:
    """Sum the applications of the same rule of the same pass over several steps."""
    totals: dict[tuple[str, str, str], RuleRecord] = {}
    for step in record.steps:
        for rule in step.rules:
            if rule.tried:
                owner = rule.owner or step.name
                total = totals.setdefault((owner, rule.name, rule.source), RuleRecord(rule.name, rule.source))
                total.tried += rule.tried
                total.matched += rule.matched
                total.applied += rule.applied
                total.seconds += rule.seconds
                total.refused += rule.refused
    return [(owner, rule) for (owner, _, _), rule in totals.items()]


def model_table(before: ModelSize, after: ModelSize, width: int) -> Table:
    """Tabulate operators, nodes, parameters and size, before and after."""
    columns = [
        Column("operator", shorten="front", least=20),
        *(Column(n, right=True) for n in ("before", "after", "Δ")),
    ]
    names = sorted({*before.operators, *after.operators}, key=lambda name: (-before.operators[name], name))
    rows: list[Row] = []
    for name in names:
        old, new = before.operators[name], after.operators[name]
        rows.append(([name, str(old), str(new), signed(new - old)], "" if old != new else "dim"))
    nodes, parameters = (before.nodes, after.nodes), (before.parameters, after.parameters)
    rows.append((["nodes", *map(str, nodes), signed(nodes[1] - nodes[0])], "bold"))
    rows.append((["parameters", *(f"{n:,}" for n in parameters), signed(parameters[1] - parameters[0])], ""))
    rows.append((["weights", size_text(before.bytes), size_text(after.bytes), ""], ""))
    return fitted_table(columns, rows, width)


def evidence_text(step: StepRecord, *, short: bool = False) -> str:
    """Describe briefly, or very briefly, the evidence that a step kept the results."""
    shown, proved = _shown_text(step, short=short), sum(bool(proof.level) for proof in step.proofs)
    if any(finding.is_proof for finding in findings_in(step.level)):
        return step.level if short or not shown else f"{step.level}; {shown}"
    return f"{shown}; {proved} of {step.applications} rewrites proved" if shown and proved and not short else shown


def _shown_text(step: StepRecord, *, short: bool) -> str:
    """Describe the evidence from executions."""
    evidence = step.evidence
    if evidence is None or evidence.level == "unchanged":
        return ""
    preserved = evidence.finding.preserved if evidence.finding is not None else ""
    if preserved == "bits":
        text = "bit-equal"
    elif preserved == "tolerance":
        greatest = evidence.max_abs
        text = "within tolerance" if greatest is None else f"within {greatest:.1e}" if greatest else "no difference"
    else:
        return evidence.level
    if short:
        return text
    if evidence.samples:
        text += f" on {evidence.samples} sample{'s' if evidence.samples > 1 else ''}"
    elif evidence.reason:
        text += ", with later steps"
    if evidence.windows:
        few = evidence.windows < step.applications
        text += f", {evidence.windows} of {step.applications} rewrites too" if few else ", each rewrite too"
    alone = sum(body.how in ("alone", "drawn") for body in evidence.bodies)
    return f"{text}, {count(alone, 'subgraph')} alone" if alone else text


def evidence_words(record: RunRecord) -> str:
    """Describe briefly the evidence that a run kept the results."""
    return "" if record.level == UNCHANGED else record.level


def metric_text(value: float) -> str:
    """Print the value of a metric."""
    return f"{value:.4g}".replace("-", "−")


def _metric_with_change(step: StepRecord, name: str, baseline: float) -> str:
    """Return the value after a step, and its change against the original model."""
    if name not in step.metrics:
        return ""
    value = step.metrics[name]
    change = value - baseline
    if not baseline or not change or not math.isfinite(change):
        return metric_text(value)
    return f"{metric_text(value)} ({change:+.2g})".replace("-", "−")


def inference_text(found: InferenceTime) -> str:
    """Return the inference times before and after, or the reason why they are not known."""
    if found.before is None or found.after is None:
        return f"not timed: {found.why}"
    return (
        f"{seconds_text(found.before)} → {seconds_text(found.after)} in ONNX Runtime, {found.ratio:.2f}× "
        f"(the least of {found.runs} runs in turns, one thread, {found.sample})"
    )


def seconds_text(seconds: float) -> str:
    """Print a time for people."""
    return (
        f"{seconds:.2f} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3g} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.3g} µs"
    )


def signed(number: int) -> str:
    """Return a signed difference; empty for zero."""
    return f"{number:+,}".replace("-", "−") if number else ""


def _reasons(record: RunRecord) -> list[str]:
    found = [step.evidence for step in record.steps if step.evidence is not None and step.level == UNVERIFIED]
    return [evidence.reason for evidence in found if evidence.reason]


def _alone(record: RunRecord) -> list[str]:
    """Name the graphs that steps changed and that ran by themselves, a few of them."""
    found = [body for step in record.steps if step.evidence is not None for body in step.evidence.bodies]
    values = {"alone": "values of the model", "drawn": "drawn values"}
    told = list(
        dict.fromkeys(f"{body.name}, checked alone on {values[body.how]}" for body in found if body.how in values)
    )
    more = len(told) - _MOST_ALONE
    return told if more <= 0 else [*told[:_MOST_ALONE], f"{more} more, checked alone"]


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
