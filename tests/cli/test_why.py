from __future__ import annotations

import json

import pytest

from tests.cli.conftest import BREAK_ADDS


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "why_plugin.py"
    path.write_text(BREAK_ADDS)
    return path


def test_story_of_a_node_of_the_result(run, model, plugin):
    answer = run("why", model, "sum", "cleanup", "break-adds", "--import", plugin)
    assert answer.code == 0
    assert answer.out.startswith("sum = Add(a, a)")
    assert "application 2 of BreakAdds" in answer.out
    assert "why_plugin.py:" in answer.out
    assert "originally: sum = Add(a, b)" in answer.out


def test_story_of_a_lost_node(run, model):
    answer = run("why", model, "unused", "cleanup")
    assert answer.code == 0
    assert "nowhere = Mul(a, same) is gone" in answer.out
    assert "remove-unused-nodes" in answer.out
    assert "in the result: nothing" in answer.out


def test_json(run, model, plugin):
    answer = run("why", "--json", model, "sum", "break-adds", "--import", plugin)
    data = json.loads(answer.out)
    assert data["present"] is True
    assert data["from"][0]["rule"] == "BreakAdds"
    assert data["origins"][0]["inputs"] == ["a", "b"]


def test_passes_of_the_configuration(run, model, plugin, tmp_path):
    config = tmp_path / "cfg.yaml"
    config.write_text(f"imports: [{plugin}]\npasses: [break-adds]\n")
    assert "BreakAdds" in run("why", "-c", config, model, "sum").out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.onnx", "sum", "cleanup"), "no such file"),
        (("{folder}", "sum", "cleanup"), "folder"),
        (("{model}",), "NODE"),
        (("{model}", "sum"), "PASS"),
        (("{model}", "sum", "cleanpu"), "did you mean 'cleanup'?"),
        (("{model}", "scald", "cleanup"), "did you mean 'scaled'?"),
        (("{model}", "sum", "cleanup", "-c", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_input(run, model, tmp_path, arguments, words):
    answer = run("why", *(text.format(model=model, folder=tmp_path) for text in arguments))
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_pass_that_fails(run, model, tmp_path):
    path = tmp_path / "why_failing.py"
    path.write_text(
        "from onnx_passes import passes, Transformation\n@passes.register()\nclass FailHere(Transformation):\n"
        "    def call(self, model):\n        raise RuntimeError('out of luck')\n"
    )
    answer = run("why", model, "sum", "fail-here", "--import", path)
    assert answer.code == 3
    assert "out of luck" in answer.err
