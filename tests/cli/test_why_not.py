from __future__ import annotations

import json

import pytest

from tests.cli.conftest import BREAK_ADDS

FUSE = """
from onnx_passes import passes, no, Transformation, RewriteRulePass

@passes.register()
class FuseReluOfMul(Transformation, RewriteRulePass):
    least: float = 0.0
    def pattern(self, op, x, y):
        return op.Relu(op.Mul(op.Neg(x), y))
    def rewrite(self, op, x, y):
        return op.Relu(y)
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "why_not_plugin.py"
    path.write_text(BREAK_ADDS + FUSE)
    return path


def test_reason_for_people(run, model, plugin):
    answer = run("why-not", model, "fuse-relu-of-mul", "--import", plugin)
    assert answer.code == 0
    assert "why_not_plugin.py:" in answer.out
    assert "Relu 'last': 2 of 3 nodes matched" in answer.out
    assert "Mul is Mul 'second'" in answer.out
    assert "expected Neg, found Add 'first'" in answer.out
    assert "expected the result of Neg, found the initializer 'one'" in answer.out


def test_it_applies_here(run, model, plugin):
    answer = run("why-not", model, "break-adds", "--at", "sum", "--import", plugin)
    assert answer.code == 0
    assert "Add 'first': it applies here" in answer.out


def test_json(run, model, plugin):
    answer = run("why-not", "--json", model, "fuse-relu-of-mul{least=1}", "--at", "last", "--import", plugin)
    data = json.loads(answer.out)
    assert data["applies"] is False
    assert data["rules"][0]["attempts"][0]["node"] == "Relu 'last'"


def test_pass_that_is_no_rule_names_those_that_are(run, model, plugin):
    answer = run("why-not", model, "shape-inference", "--import", plugin)
    assert answer.code == 2
    assert "'shape-inference' is not made of rewrite rules" in answer.err
    assert "passes that are: absorb-" in answer.err
    assert " more" in answer.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.onnx", "break-adds"), "no such file"),
        (("{folder}", "break-adds"), "folder"),
        (("{model}",), "RULE"),
        (("{model}", "break-ads"), "did you mean 'break-adds'?"),
        (("{model}", "break-adds{much=1}"), "option"),
        (("{model}", "break-adds", "--at", "frist"), "did you mean 'first'?"),
        (("{model}", "break-adds", "--top", "0"), "--top"),
        (("{model}", "break-adds", "-c", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_input(run, model, plugin, tmp_path, arguments, words):
    given = (text.replace("{model}", str(model)).replace("{folder}", str(tmp_path)) for text in arguments)
    answer = run("why-not", *given, "--import", plugin)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
