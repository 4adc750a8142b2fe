"""Numbers over the steps of a run: operators, errors, metrics."""

from __future__ import annotations

from collections import Counter

from onnx_passes.core.plain import Json
from onnx_passes.core.records import RunRecord
from onnx_passes.history.recording import Recording
from onnx_passes.report.findings import Findings

_SHOWN = 10
_OTHERS = "others"


def charts(recording: Recording, run: RunRecord, found: Findings) -> Json:
    """Return the data of the charts of a report."""
    last = run.steps[-1].number if run.steps else 1
    return {
        "operators": operators(recording),
        "error": [
            {
                "step": step.number,
                "max_abs": step.evidence.max_abs,
                "max_rel": step.evidence.max_rel,
                **({} if step.evidence.max_ulp is None else {"max_ulp": step.evidence.max_ulp}),
            }
            for step in run.steps
            if step.evidence is not None and step.evidence.max_abs is not None
        ],
        "metrics": {
            name: [{"step": s.number, "value": s.metrics[name]} for s in run.steps if name in s.metrics]
            for name in sorted({name for step in run.steps for name in step.metrics})
        },
        "bits": found.bits,
        "integer": [
            {"step": step, "share": share}
            for step, share in zip((0, last), found.shares, strict=True)
            if share is not None
        ],
    }


def operators(recording: Recording) -> list[Json]:
    """Count operators as the model came and after each step that changed their numbers; rare ones together."""
    counts = Counter(node.op for node in recording.original.nodes)
    states = [(0, counts.copy())]
    for event in recording.events:
        counts.update(node.op for node in event.changes.added)
        counts.subtract(node.op for node in event.changes.removed)
        if event.step == states[-1][0]:
            states[-1] = event.step, counts.copy()
        elif counts != states[-1][1]:
            states.append((event.step, counts.copy()))
    most: Counter[str] = Counter()
    for _, state in states:
        most |= state
    shown = {op for op, _ in most.most_common(_SHOWN)}
    return [{"step": step, "counts": _grouped(state, shown)} for step, state in states]


def _grouped(counts: Counter[str], shown: set[str]) -> dict[str, int]:
    grouped: Counter[str] = Counter()
    for op, count in counts.items():
        grouped[op if op in shown else _OTHERS] += count
    return {op: count for op, count in grouped.most_common() if count}
