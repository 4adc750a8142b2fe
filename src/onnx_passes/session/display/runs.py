"""Pages of runs and of their steps."""

from __future__ import annotations

from collections.abc import Iterable

from onnx_passes.api import Result
from onnx_passes.core.evidence import FAILED, PRESERVED, UNVERIFIED, findings_in
from onnx_passes.core.pipeline import without_body
from onnx_passes.core.records import ModelSize, RunRecord, Status, StepRecord
from onnx_passes.core.text import shortened, size_text
from onnx_passes.graph.wording import count
from onnx_passes.report.tables import evidence_text, evidence_words, is_no_news, metric_text, signed
from onnx_passes.session.display.html import (
    Html,
    badge,
    code,
    element,
    facts,
    folded,
    joined,
    quiet,
    strong,
    table,
    title,
)

_LONGEST = 100
"""Characters of pipeline text that are shown."""
_STEPS = 16
"""More steps than this are folded away."""


def result_page(result: Result) -> Html:
    """Show the effects of a run."""
    return run_page(result.record)


def run_page(run: RunRecord) -> Html:
    """Show a run in a line, its steps and the operators before and after."""
    shown = [step for step in run.steps if step.status is not Status.SKIPPED and not is_no_news(step)]
    steps = steps_table(shown, list(run.metrics))
    notes = dict.fromkeys(f"{step.name}: {note}" for step in run.steps for note in step.notes)
    changed = sum(step.modified for step in run.leaves())
    ran = sum(step.status is Status.DONE for step in run.leaves())
    summary = f"{len(shown)} of {len(run.steps)} steps, {changed} of {ran} passes changed the model"
    return joined(
        [
            title(
                code(shortened(run.pipeline, _LONGEST)),
                f": {run.before.nodes} → ",
                strong(f"{run.after.nodes} nodes"),
                f", {count(run.applications, 'rewrite')}, {run.cpu:.2f} s CPU ",
                badge(evidence_words(run), level_kind(run.level)),
            ),
            steps if len(shown) <= _STEPS else folded(summary, steps),
            folded("operators", operators_table(run.before, run.after)) if run.modified else "",
            element("ul", *(element("li", note) for note in notes)) if notes else "",
        ]
    )


def run_text(run: RunRecord) -> str:
    """Describe the effects of a run, with a line for each pass that changed the model."""
    parts = [
        f"{run.pipeline}: {run.before.nodes} → {run.after.nodes} nodes",
        count(run.applications, "rewrite"),
        evidence_words(run),
        f"{run.cpu:.1f} s CPU",
    ]
    changed = [step for step in run.leaves() if step.modified]
    width = max((len(step.name) for step in changed), default=0)
    deltas = [signed(step.nodes_after - step.nodes_before) for step in changed]
    lines = [
        f"  {step.name:{width}}  {step.nodes_after:>5} {delta:>5}  {evidence_text(step)}".rstrip()
        for step, delta in zip(changed, deltas, strict=True)
    ]
    return "\n".join([", ".join(filter(None, parts)), *lines])


def step_page(step: StepRecord) -> Html:
    """Show one step, with the effects of its rules."""
    rules = [rule for rule in step.rules if rule.tried]
    rows = [
        (rule.name, rule.tried, rule.applied, "; ".join(f"{n} × {why}" for why, n in rule.refused.most_common(3)))
        for rule in sorted(rules, key=lambda rule: (-rule.applied, -rule.tried))
    ]
    return joined(
        [
            title(strong(f"step {step.number} "), code(shortened(step.text, _LONGEST)), " ", evidence_badge(step)),
            facts(
                {
                    "why": step.why,
                    "outcome": f"{step.status}{f': {step.reason}' if step.reason else ''}",
                    "nodes": f"{step.nodes_before} → {step.nodes_after}" if step.modified else "unchanged",
                    "rewrites": step.applications,
                    "time": f"{step.cpu * 1000:.1f} ms CPU",
                    "metrics": ", ".join(f"{name} {metric_text(value)}" for name, value in step.metrics.items()),
                    "notes": "; ".join(step.notes),
                }
            ),
            table(("rule", "tried", "applied", "refused because"), rows, numbers=(1, 2)) if rows else "",
        ]
    )


def steps_table(steps: Iterable[StepRecord], metrics: list[str]) -> Html:
    """Tabulate steps."""
    rows = [
        (
            element("span", code(shortened(without_body(step.text), _LONGEST)), style=f"padding-left:{step.depth}em"),
            step.nodes_after,
            signed(step.nodes_after - step.nodes_before),
            step.applications or "",
            f"{step.cpu * 1000:.1f}" if step.status is not Status.SKIPPED else "",
            *(metric_text(step.metrics[name]) if name in step.metrics else "" for name in metrics),
            evidence_badge(step),
        )
        for step in steps
    ]
    header = ("pass", "nodes", "Δ", "rewrites", "CPU ms", *metrics, "evidence")
    return table(header, rows, numbers=range(1, 5 + len(metrics)))


def level_kind(level: str) -> str:
    """Return the kind of badge for a level of evidence."""
    if level in (UNVERIFIED, FAILED):
        return "open" if level == UNVERIFIED else "bad"
    findings = findings_in(level)
    exact = any(finding.is_proof or finding.preserved == PRESERVED[0] for finding in findings)
    return "good" if exact or not findings else "near"


def evidence_badge(step: StepRecord) -> Html:
    """Show the level of evidence that a step kept the results."""
    if step.status is Status.FAILED:
        return badge("failed", "bad")
    if step.status is Status.SKIPPED:
        return quiet(f"skipped: {step.reason}")
    if not step.modified:
        return quiet("unchanged")
    return badge(evidence_text(step), level_kind(step.level))


def operators_table(before: ModelSize, after: ModelSize) -> Html:
    """Tabulate the numbers of nodes by operator before and after; changed ones first."""
    names = sorted({*before.operators, *after.operators})
    names.sort(key=lambda name: (before.operators[name] == after.operators[name], -before.operators[name]))
    rows: list[tuple[object, ...]] = []
    for name in names:
        old, new = before.operators[name], after.operators[name]
        rows.append((name, old, new, signed(new - old)))
    rows.append(("weights", size_text(before.bytes), size_text(after.bytes), ""))
    return table(("operator", "before", "after", "Δ"), rows, numbers=(1, 2, 3))
