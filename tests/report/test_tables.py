from __future__ import annotations

import io
import math
from collections import Counter

from rich.console import Console

from onnx_passes.core.evidence import Evidence
from onnx_passes.core.records import ModelSize, RuleRecord, RunRecord, Status, StepRecord
from onnx_passes.core.text import size_text
from onnx_passes.report.failed import ShowFailedRun
from onnx_passes.report.tables import show_run, signed


def shown(record: RunRecord, *, width: int = 140, **kwargs: bool) -> str:
    stream = io.StringIO()
    show_run(record, console=Console(file=stream, width=width), **kwargs)
    return stream.getvalue()


def record() -> RunRecord:
    rule = RuleRecord("FuseThis", "fuse.py:7", tried=9, matched=4, applied=1, seconds=0.5)
    rule.refused["scale is not constant"] = 3
    steps = [
        StepRecord(1, "outer", "outer{x=[1, 2]}", "requested", status=Status.DONE, has_children=True),
        StepRecord(2, "inner", "inner", "member", depth=1, status=Status.DONE, modified=True, rules=[rule]),
        StepRecord(3, "later", "later", "follows x", status=Status.SKIPPED, reason="x changed nothing"),
        StepRecord(4, "facts", "facts", "needed by x", status=Status.SKIPPED, reason="still holds"),
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
    assert "skipped: x changed nothing" in text
    assert "facts" not in text
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


def measured() -> RunRecord:
    made = record()
    made.metrics = {"accuracy": 0.98, "max_abs_error": 0.0, "psnr": math.inf}
    made.metrics_note = "measured on 360 samples against the original model"
    made.steps[1].metrics = {"accuracy": 0.91, "max_abs_error": 0.25, "psnr": 31.5}
    return made


def test_metrics_are_columns_with_the_change_against_the_original():
    lines = shown(measured()).splitlines()
    assert lines[0].split()[6:9] == ["accuracy", "max_abs_error", "psnr"]
    assert lines[1].split() == ["(original)", "12", "0.98", "0", "inf"]
    assert any(line.split()[:8] == ["inner", "9", "−3", "1", "0.0", "0.91", "(−0.07)", "0.25"] for line in lines)
    assert "metrics: measured on 360 samples against the original model" in lines


def test_metrics_that_are_too_wide_have_a_table_of_their_own():
    lines = shown(measured(), width=80).splitlines()
    assert all(len(line) <= 80 and "…" not in line for line in lines)
    assert lines[0].split()[:6] == ["pass", "nodes", "Δ", "rewrites", "CPU", "ms"]
    assert any(line.split() == ["inner", "0.91", "(−0.07)", "0.25", "31.5"] for line in lines)
    assert not any(line.startswith("outer{x=[1, 2]}") and "0.98" in line for line in lines)


def test_nothing_is_said_of_metrics_where_none_is_measured():
    assert "original" not in shown(record())
    assert "metric" not in shown(record())


def test_why_nothing_was_measured_is_said():
    made = record()
    made.metrics_note = "not measured: nothing defines the operator"
    assert "metrics: not measured: nothing defines the operator" in shown(made)


def test_a_failed_run_shows_how_metrics_went():
    stream = io.StringIO()
    watcher = ShowFailedRun(Console(file=stream, width=140))
    watcher.pipeline_failed(record(), None, ValueError())
    assert stream.getvalue() == ""
    watcher.pipeline_failed(measured(), None, ValueError())
    assert "0.91 (−0.07)" in stream.getvalue()


def test_tables_keep_their_columns_in_80_characters():
    made = record()
    made.steps[1].evidence = Evidence("bits:sampled", samples=3, windows=4)
    made.steps[1].text = "inner{member.option-of-some-length=3, another.option=[1, 2, 3]}"
    made.before.operators["some.long.domain.of.a.vendor::AnOperatorWithAVeryLongNameThatGoesOnAndOn"] = 2
    lines = shown(made, width=80, rules=True).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[2].split() == ["inner", "9", "−3", "1", "0.0", "bit-equal"]
    assert [line.strip() for line in lines[3:5]] == ["{member.option-of-some-length=3,", "another.option=[1, 2, 3]}"]
    assert "bit-equal on 3 samples, each rewrite too" in shown(made, width=140)


def test_rules_are_named_with_their_pass():
    made = record()
    owned = RuleRecord("Add", "eliminate.py:7", tried=2, owner="eliminate-neutral-element")
    again = RuleRecord("Add", "eliminate.py:7", tried=3, applied=1, owner="eliminate-neutral-element")
    made.steps[0].rules.append(owned)
    made.steps[1].rules.append(again)
    for width in (80, 140):
        lines = [line.split() for line in shown(made, width=width, rules=True).splitlines()]
        assert ["eliminate-neutral-element", "Add", "5", "0", "1", "0.0"] in lines
        assert ["inner", "FuseThis", "9", "4", "1", "500.0"] in [line[:6] for line in lines]
    assert again.to_json()["pass"] == "eliminate-neutral-element"
