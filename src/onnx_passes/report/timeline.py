"""The timeline of a run, as a trace for Perfetto and Chrome: passes, checks, rules, rewrites, numbers of nodes."""

from __future__ import annotations

import time
from typing import Any

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, Status, StepRecord

_PROCESS = 1
_PASSES, _RULES = 1, 2
_TRACKS = {_PASSES: "passes", _RULES: "time of each rule in a pass, summed up"}


class Timeline(Instrument):
    """Notes times in the Trace Event Format; put it first among the instruments, so that a pass spans its checks."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._started = 0.0
        self._open: list[tuple[float, StepRecord]] = []

    def to_json(self) -> dict[str, Any]:
        """Return the trace as plain data."""
        return {"traceEvents": self.events, "displayTimeUnit": "ms"}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Start the clock."""
        self._started, self._open = time.perf_counter(), []
        self.events = [{"ph": "M", "name": "process_name", "args": {"name": "onnx-passes"}, "pid": _PROCESS}]
        for track, name in _TRACKS.items():
            self._add("M", "thread_name", track, args={"name": name})
        self._count(0.0, run.before.nodes, 0)

    def after_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Close the span of the run."""
        self._end(run)

    def pipeline_failed(self, run: RunRecord, model: ir.Model, error: BaseException) -> None:
        """Close open spans when a run fails."""
        while self._open:
            self._close()
        self._end(run, failed=str(error))

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Open the span of a pass."""
        self._open.append((self._now(), record))

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Close the span of a pass with its effects; open spans inside were vetoed without effect."""
        while self._open[-1][1] is not record:
            self._open.pop()
        self._close()

    def pass_failed(self, record: StepRecord, step: Step, model: ir.Model, error: BaseException) -> None:
        """Close the spans of a failed pass, and the open spans inside."""
        while self._open and self._open[-1][1].number >= record.number:
            self._close()

    def after_rewrite(self, application: Application) -> None:
        """Mark a rewrite."""
        counts = {"matched": len(application.matched), "added": len(application.added)}
        args = {"number": application.number, "source": application.source, **counts}
        self._add("i", application.rule, _PASSES, ts=self._now(), s="t", cat="rewrite", args=args)

    def _close(self) -> None:
        start, record = self._open.pop()
        if record.status is Status.SKIPPED:
            return
        now = self._now()
        args: dict[str, Any] = {"step": record.number, "text": record.text, "status": str(record.status)}
        args |= {"nodes": record.nodes_after, "rewrites": record.applications}
        if record.evidence is not None:
            args["evidence"] = record.evidence.to_json()
        self._span(record.name, _PASSES, start, now - start, "pass", args)
        if record.has_children:
            return
        ran = min(record.wall * 1e6, now - start)
        if record.evidence is not None:
            self._span("checks", _PASSES, start + ran, now - start - ran, "check", {"level": record.evidence.level})
        self._rules(record, start, ran)
        if record.modified:
            self._count(start + ran, record.nodes_after, record.applications)

    def _rules(self, record: StepRecord, start: float, ran: float) -> None:
        """Show the rules of a pass one after the other, by their total times, not by the times of their attempts."""
        at = start
        for rule in record.rules:
            taken = min(rule.seconds * 1e6, start + ran - at)
            if taken > 0:
                counts = {"tried": rule.tried, "matched": rule.matched, "applied": rule.applied}
                self._span(rule.name, _RULES, at, taken, "rule", {**counts, "source": rule.source})
                at += taken

    def _end(self, run: RunRecord, **more: str) -> None:
        args = {"pipeline": run.pipeline, "rewrites": run.applications, **more}
        self._span("run", _PASSES, 0.0, self._now(), "run", args)

    def _count(self, at: float, nodes: int, rewrites: int) -> None:
        self._add("C", "nodes", _PASSES, ts=at, args={"nodes": nodes})
        self._add("C", "rewrites of a pass", _PASSES, ts=at, args={"rewrites": rewrites})

    def _span(self, name: str, track: int, start: float, lasts: float, kind: str, args: dict[str, Any]) -> None:
        self._add("X", name, track, ts=start, dur=max(lasts, 0.0), cat=kind, args=args)

    def _add(self, kind: str, name: str, track: int, **fields: Any) -> None:
        times = {key: round(fields.pop(key), 3) for key in ("ts", "dur") if key in fields}
        self.events.append({"ph": kind, "name": name, "pid": _PROCESS, "tid": track, **times, **fields})

    def _now(self) -> float:
        return (time.perf_counter() - self._started) * 1e6
