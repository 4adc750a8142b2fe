from __future__ import annotations

from pathlib import Path

from onnx_passes.core.records import ModelSize, RuleRecord, RunRecord, StepRecord
from onnx_passes.passes.eliminate import piece_laws
from onnx_passes.report.data import Sources, short_source


def sources(*rules: tuple[str, str, str]) -> Sources:
    records = [RuleRecord(name, source, applied=1, owner=owner) for name, source, owner in rules]
    records.append(RuleRecord("never applied", "elsewhere.py:1"))
    step = StepRecord(1, "together", "together(…)", "requested", rules=records)
    return Sources(RunRecord("", ModelSize(), steps=[step]))


def test_law_is_the_documentation_of_its_rule():
    law = next(law for law in piece_laws.EliminateSlice.laws if law.text.endswith("→ x"))
    found = sources(("Slice", law.source, "eliminate-slice"))
    assert found.rules == {"Slice": {"pass": "eliminate-slice", "source": short_source(law.source), "doc": str(law)}}
    assert found.rules["Slice"]["source"].startswith("onnx_passes/passes/eliminate/piece_laws.py:")
    assert found.passes["eliminate-slice"]["summary"]


def test_rules_of_one_name_are_told_apart():
    found = sources(
        ("Mul", "a.py:1", "one"), ("Mul", "b.py:2", "two"), ("Mul", "b.py:9", "two"), ("Add", "a.py:3", "one")
    )
    assert [found.label("Mul", "a.py:1"), found.label("Mul", "b.py:9"), found.label("Add", "a.py:3")] == [
        "Mul (one)",
        "Mul (two, line 9)",
        "Add",
    ]
    assert len(found.rules) == 4
    assert found.label("unknown", "c.py:1") == "unknown"


def test_places_are_short(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert short_source(f"{tmp_path / 'mine' / 'rule.py'}:7") == "mine/rule.py:7"
    assert short_source(f"{Path('/elsewhere/rule.py')}:7") == "/elsewhere/rule.py:7"
    assert short_source("built in") == "built in"
