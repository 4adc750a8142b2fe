from __future__ import annotations

import io
from collections import Counter

from rich.console import Console

from onnx_passes.core.records import ModelSize, RuleRecord, RunRecord, Status, StepRecord
from onnx_passes.report.tables import show_run, signed, size_text


def shown(record: RunRecord, **kwargs: bool) -> str:
    stream = io.StringIO()
    show_run(record, console=Console(file=stream, width=140), **kwargs)
    return stream.getvalue()


def record() -> RunRecord:
    rule = RuleRecord("FuseThis", "fuse.py:7", tried=9, matched=4, applied=1, seconds=0.5)
    rule.refused["scale is not constant"] = 3
    steps = [
        StepRecord(1, "outer", "outer{x=[1, 2]}", "requested", status=Status.DONE, has_children=True),
        StepRecord(2, "inner", "inner", "member", depth=1, status=Status.DONE, modified=True, rules=[rule]),
        StepRecord(3, "later", "later", "needed by x", status=Status.SKIPPED, reason="still holds"),
    ]
    steps[1].nodes_before, steps[1].nodes_after, steps[1].applications = 12, 9, 1
    steps[1].notes.append("stopped after 3 rounds")
    return RunRecord(
        "outer",
        ModelSize(Counter({"Add": 10, "Mul": 2}), 1000, 4000),
        ModelSize(Counter({"Add": 9}), 10, 40),
        steps,
        applications=1,
    )


def test_steps_operators_and_notes_are_shown():
    text = shown(record())
    assert "outer{x=[1, 2]}" in text
    assert any(line.split()[:4] == ["inner", "9", "−3", "1"] for line in text.splitlines())
    assert "skipped: still holds" in text
    assert any(line.split() == ["Mul", "2", "0", "−2"] for line in text.splitlines())
    assert any(line.split() == ["nodes", "12", "9", "−3"] for line in text.splitlines())
    assert "note: inner: stopped after 3 rounds" in text
    assert "1 passes ran" in text


def test_rules_are_shown_when_asked_for():
    assert "scale is not constant (3×)" in shown(record(), rules=True)
    assert "scale is not constant" not in shown(record())


def test_numbers_for_people():
    assert (signed(0), signed(3), signed(-1200)) == ("", "+3", "−1,200")
    sizes = [size_text(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30)]
    assert sizes == ["0 B", "1023 B", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
