"""``onnx-passes fuzz``."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.cli.conftest import BREAK_ADDS

SOUND = """
from onnx_passes import passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register("tried")
class DropNegations(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))
    def rewrite(self, op, x):
        return op.Identity(x)
"""


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / "user_rules.py"
    file.write_text(SOUND + BREAK_ADDS.replace("@passes.register()", '@passes.register("tried")'))
    return file


def test_sound_rule(run, rules):
    answer = run("fuzz", "--import", rules, "--cases", "20", "drop-negations")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("drop-negations: ok (")
    assert "of 20 models rewritten" in answer.out


def test_wrong_rule_is_shown_before_and_after(run, rules):
    answer = run("fuzz", "--import", rules, "BreakAdds")
    assert answer.code == 1
    for words in ("WRONG in break-adds", "before:", "after:", "inputs:", "Add (x1, x1)", "expected"):
        assert words in answer.out


def test_group_and_json(run, rules):
    answer = run("fuzz", "--import", rules, "--cases", "10", "--json", "tried")
    assert answer.code == 1
    reports = {report["rule"]: report for report in json.loads(answer.out)}
    assert reports["drop-negations"]["ok"] is True
    findings = {finding["kind"]: finding for finding in reports["break-adds"]["findings"]}
    assert "Add" in findings["WRONG"]["before"]


def test_same_seed_same_answer(run, rules):
    answers = [run("fuzz", "--import", rules, "--seed", "5", "--json", "BreakAdds").out for _ in range(2)]
    first, second = (json.loads(answer)[0]["findings"] for answer in answers)
    assert first == second


def test_corpus(run, rules, tmp_path):
    folder = tmp_path / "corpus"
    run("fuzz", "--import", rules, "--corpus", folder, "BreakAdds")
    assert list(folder.glob("break-adds-WRONG-*.onnxtxt"))
    known = len(list(folder.glob("*.onnxtxt")))
    assert f"{known} of {known} models" in run("fuzz", "--import", rules, "--corpus", folder, "BreakAdds").out


def test_campaign_tells_each_finding_once_and_goes_on(run, rules, tmp_path):
    options = ["--import", rules, "--cases", "8", "--corpus", tmp_path / "corpus", "break-adds", "drop-negations"]
    first = run("fuzz", *options, "--seeds", "1")
    assert first.code == 1
    assert first.out.count("WRONG in break-adds") == 1
    lines = first.out.splitlines()
    assert lines[-3].split() == ["rule", "kind", "met", "first", "seed", "file"]
    assert lines[-2].split()[:4] == ["break-adds", "WRONG", "1", "0"]
    assert (tmp_path / "corpus" / lines[-2].split()[-1]).exists()
    assert lines[-1].startswith("1 finding: 2 of 2 rules, seed 0, 2 trials, ")
    again = run("fuzz", *options, "--seeds", "1")
    assert again.code == 1
    assert "WRONG in" not in again.out
    assert "2 trials, 2 of them before" in again.out
    told = json.loads(run("fuzz", *options, "--seeds", "1", "--json").out)
    assert (told["stopped"], told["trials"], told["resumed"]) == (False, 2, 2)
    [finding] = told["findings"]
    assert (finding["rule"], finding["kind"], finding["met"]) == ("break-adds", "WRONG", 1)
    words = shlex.split(finding["command"])[1:]
    shown = run(*words)
    assert shown.code == 1
    assert "WRONG in break-adds" in shown.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fuzz"], "RULE"),
        (["fuzz", "--all", "checker"], "--all"),
        (["fuzz", "--seeds", "0", "checker"], "--seeds"),
        (["fuzz", "--minutes", "1", "checker"], "not made of rules"),
        (["fuzz", "eliminate-slice/Nothing"], "no rule 'eliminate-slice/Nothing'"),
        (["fuzz", "no-such-rule"], "no pass or group named 'no-such-rule'"),
        (["fuzz", "checker"], "not made of rules"),
        (["fuzz", "--cases", "0", "checker"], "--cases"),
        (["fuzz", "--cases", "many", "checker"], "--cases"),
        (["fuzz", "--seed", "-1", "checker"], "--seed"),
        (["fuzz", "--import", "./absent.py", "x"], "absent.py"),
    ],
)
def test_wrong_usage(run, arguments, words):
    answer = run(*arguments)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_corpus_that_is_a_file(run, rules, tmp_path):
    (tmp_path / "file").write_text("")
    answer = run("fuzz", "--import", rules, "--corpus", tmp_path / "file", "BreakAdds")
    assert answer.code == 2
    assert "folder" in answer.err


def test_damaged_corpus(run, rules, tmp_path):
    (tmp_path / "break-adds-WRONG-12345678.onnxtxt").write_text("no model")
    answer = run("fuzz", "--import", rules, "--corpus", tmp_path, "BreakAdds")
    assert answer.code == 2
    assert "break-adds-WRONG-12345678.onnxtxt" in answer.err
    assert "Traceback" not in answer.err


def test_random_models_are_judged_with_passes_of_the_user(run, rules, tmp_path):
    found = tmp_path / "found"
    answer = run("fuzz", "--import", rules, "--models", "float", "--cases", "4", "--json", "--corpus", found)
    data = json.loads(answer.out)
    assert (data["rules"], data["seeds"], data["trials"]) == (1, [0], 1)
    assert 0 < data["cases"] <= 4
    assert (found / "campaign.jsonl").exists()
    again = run("fuzz", "--import", rules, "--models", "float", "--cases", "4", "--json", "--corpus", found)
    assert json.loads(again.out)["resumed"] == 1


def test_rules_and_models_are_tried_apart(run, rules):
    assert run("fuzz", "--models", "all", "--all").code == 2
    assert run("fuzz", "--models", "texts").code == 2
