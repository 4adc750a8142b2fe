"""``onnx-passes prove``, and what certificates show in ``list`` and ``explain``."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

from onnx_passes.proofs import rule_certificate as room
from tests.cli.conftest import BREAK_ADDS

RULES = """
from onnx_passes import passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register("claimed")
class NegateOnce(Transformation, RewriteRulePass):
    '''Negate once instead of thrice.

    Rewrites: ``Neg(Neg(Neg(x)))`` → ``Neg(x)``.
    Refuses:  nothing.
    '''
    def pattern(self, op, x):
        return op.Neg(op.Neg(op.Neg(x)))
    def rewrite(self, op, x):
        return op.Neg(x)
"""


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "user_rules.py"
    file.write_text(RULES + BREAK_ADDS.replace("@passes.register()", '@passes.register("claimed")'))
    return file


def test_sound_rule(run, rules):
    answer = run("prove", "--import", rules, "negate-once")
    assert answer.code == 0, answer.err + answer.out
    assert answer.out.startswith("negate-once/NegateOnce: proved by ")
    assert "1 of 1 laws and rules are proved" in answer.out


def test_wrong_rule_is_shown_before_and_after(run, rules):
    answer = run("prove", "--import", rules, "BreakAdds")
    assert answer.code == 1
    for words in ("not proved: refuted", "before:", "after:", "0 of 1 laws and rules are proved"):
        assert words in answer.out


def test_group_and_json(run, rules):
    answer = run("prove", "--import", rules, "--json", "claimed")
    assert answer.code == 1
    found = {each["rule"]: each for each in json.loads(answer.out)}
    assert found["negate-once/NegateOnce"]["statement"] == "``Neg(Neg(Neg(x)))`` → ``Neg(x)``."
    assert found["negate-once/NegateOnce"]["domain"]["ranks"]
    assert found["break-adds/BreakAdds"]["missing"].startswith("refuted")


def test_something_must_be_named(run):
    answer = run("prove")
    assert answer.code == 2
    assert "Give RULE… or --all" in answer.err


def test_without_the_solver_nothing_is_proved(run, monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    answer = run("prove", "eliminate-transpose")
    assert answer.code == 2
    assert "z3" in answer.err
    assert "pip install 'onnx-passes[prove]'" in answer.err


def test_list_shows_evidence(run):
    answer = run("list", "--evidence", "eliminate-transpose")
    assert answer.code == 0
    assert "eliminate-transpose/" in answer.out
    assert "laws and rules are proved" in answer.out
    rows = json.loads(run("list", "--evidence", "--json", "eliminate-transpose").out)
    assert {row["level"] for row in rows} <= {"proved", "equal-in-reals", "unproved"}
    assert all(row["statement"] and row["source"] for row in rows)


@pytest.fixture
def changed_source(monkeypatch):
    monkeypatch.setattr(room, "module_digest", lambda name: "changed")
    monkeypatch.setattr(room, "sources_of", lambda pass_, rules: dict.fromkeys(rules, "changed"))
    room.current_certificates.cache_clear()
    yield
    room.current_certificates.cache_clear()


def test_stale_certificates_are_shown_and_count_as_none(run, changed_source):
    answer = run("list", "--evidence", "eliminate-transpose")
    assert "stale" in answer.out
    assert "0 of 5 laws and rules are proved (0 %): 0 bit by bit, 0 over the reals; 5 are stale" in answer.out
    rows = json.loads(run("list", "--evidence", "--json", "eliminate-transpose").out)
    assert {row["level"] for row in rows} == {"stale"}
    explained = run("explain", "eliminate-transpose").out
    assert "stale (the source of the rule has changed since it was proved)" in explained
    assert ": proved by" not in explained


def test_edited_certificates_are_shown_and_count_as_none(run, monkeypatch, tmp_path):
    name = "eliminate-transpose.json"
    text = (room.FOLDER / name).read_text(encoding="utf-8")
    (tmp_path / name).write_text(text.replace('"instances": ', '"instances": 1', 1), encoding="utf-8")
    monkeypatch.setattr(room, "FOLDER", tmp_path)
    for cached in (room.certificates_of, room.current_certificates):
        cached.cache_clear()
    try:
        answer = run("list", "--evidence", "eliminate-transpose")
        explained = run("explain", "eliminate-transpose").out
    finally:
        for cached in (room.certificates_of, room.current_certificates):
            cached.cache_clear()
    assert "0 of 2 laws and rules are proved" in answer.out
    assert "2 are of files that were changed" in answer.out
    assert "edited (its file was changed after it was written)" in explained
    assert ": proved by" not in explained


def test_list_and_explain_import_no_models():
    for words in (["list", "--evidence", "eliminate-transpose"], ["explain", "eliminate-transpose"]):
        script = f"import sys; from onnx_passes.cli.main import run_command_line as run; run({words}); "
        script += "sys.exit('onnx_ir' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


def test_explain_shows_certificates(run):
    assert "Certificates:\n  " in run("explain", "eliminate-transpose").out
