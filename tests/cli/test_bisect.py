from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from tests.cli.conftest import BREAK_ADDS

SCALE = """
from onnx_passes import passes, PassResult, Transformation
import numpy as np
import onnx_ir as ir

@passes.register()
class Scale(Transformation):
    factor: float = 1.0
    def call(self, model):
        node = model.graph.outputs[0].producer()
        constant = ir.Value(name=f"factor_{len(model.graph)}", const_value=ir.Tensor(np.float32(self.factor)))
        model.graph.register_initializer(constant)
        new = ir.node("Mul", [node.inputs[0], constant])
        new.outputs[0].name = f"scaled_{len(model.graph)}"
        model.graph.insert_before(node, new)
        node.replace_input_with(0, new.outputs[0])
        return PassResult(model, modified=True)

@passes.register()
class Fail(Transformation):
    def call(self, model):
        raise RuntimeError("out of luck")
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "bisect_plugin.py"
    path.write_text(BREAK_ADDS + SCALE)
    return path


def test_culprit_is_named_with_exit_code_one(run, model, plugin):
    answer = run("bisect", model, "cleanup", "break-adds", "--import", plugin)
    assert answer.code == 1
    assert answer.out.startswith("first bad step: ")
    assert "break-adds" in answer.out
    assert "BreakAdds, " in answer.out
    assert "bisect_plugin.py:" in answer.out
    assert "sum = Add(a, b)" in answer.out
    assert "sum = Add(a, a)" in answer.out


def test_json_for_programs(run, model, plugin):
    answer = run("bisect", "--json", model, "unique-names", "break-adds", "--import", plugin)
    data = json.loads(answer.out)
    assert answer.code == 1
    assert data["found"] is True
    assert (data["text"], data["application"], data["rule"]) == ("break-adds", 1, "BreakAdds")
    assert data["runs"] <= 3


def test_nothing_bad(run, model):
    answer = run("bisect", model, "cleanup")
    assert answer.code == 0
    assert "nothing is bad" in answer.out


def test_passes_of_the_configuration(run, model, plugin, tmp_path):
    config = tmp_path / "cfg.yaml"
    config.write_text(f"imports: [{plugin}]\npasses: [cleanup, break-adds]\n")
    answer = run("bisect", "-c", config, model)
    assert answer.code == 1
    assert "break-adds" in answer.out


def test_tolerance_given_here(run, model, plugin):
    steps = ["scale{factor=1.001}"] * 5
    assert run("bisect", model, *steps, "--import", plugin, "--tolerance", "0,0.1").code == 0
    answer = run("bisect", model, *steps, "--import", plugin, "--tolerance", "0,0.0025")
    assert answer.code == 1
    assert answer.out.startswith("first bad step: 3 of 5")
    assert "no single pass is bad" in answer.out


def test_tolerance_of_the_configuration(run, model, plugin, tmp_path):
    config = tmp_path / "cfg.yaml"
    config.write_text("verify: {tolerance: {atol: 0.0, rtol: 0.01}}\n")
    arguments = ("bisect", model, "scale{factor=1.001}", "--import", plugin)
    assert run(*arguments).code == 1
    assert run(*arguments, "-c", config).code == 0


def test_metric_with_data(run, model, plugin, tmp_path):
    inputs = tmp_path / "inputs.npz"
    np.savez(inputs, a=np.ones(2, np.float32), b=np.ones(2, np.float32))
    steps = ["scale{factor=1.1}"] * 6
    arguments = ("bisect", model, *steps, "--import", plugin, "--inputs", inputs)
    # 2 · 1.1 ** n leaves 2 by more than 1 at n = 5.
    answer = run(*arguments, "--metric", "max_abs_error=,1")
    assert answer.code == 1
    assert answer.out.startswith("first bad step: 5 of 6")
    assert "max_abs_error is 1.22102" in answer.out


def test_metrics_of_the_configuration_count(run, model, plugin, tmp_path):
    config = tmp_path / "cfg.yaml"
    config.write_text("verify: {tolerance: {atol: 0.0, rtol: 0.5}, metrics: {cosine_similarity: [2, 3]}}\n")
    answer = run("bisect", model, "cleanup", "-c", config)
    assert answer.code == 2
    assert "cosine_similarity is 1, accepted is 2 to 3" in answer.err


def test_command_decides(run, model, plugin, tmp_path):
    script = tmp_path / "check.py"
    # An operator is field 4 of a node, with its length before it.
    script.write_text('import sys\nsys.exit(open(sys.argv[1], "rb").read().count(b"\\x22\\x03Mul") > 4)')
    steps = ["scale"] * 4
    answer = run("bisect", model, *steps, "--import", plugin, "--command", f"{sys.executable} {script} {{}}")
    assert answer.code == 1
    assert answer.out.startswith("first bad step: 3 of 4")


def test_pass_that_fails_is_found(run, model, plugin):
    answer = run("bisect", model, "unique-names", "scale", "fail", "cleanup", "--import", plugin)
    assert answer.code == 1
    assert answer.out.startswith("first bad step: 3 of 3")
    assert "out of luck" in answer.out
    assert "Traceback" not in answer.err


def test_bad_original_is_a_mistake_of_the_user(run, model):
    answer = run("bisect", model, "cleanup", "--command", f"{sys.executable} -c 'raise SystemExit(3)'")
    assert answer.code == 2
    assert "the original model is already bad: the command ended with exit code 3" in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent.onnx", "cleanup"), "no such file"),
        (("{folder}", "cleanup"), "folder"),
        (("{model}",), "PASS"),
        (("{model}", "cleanpu"), "did you mean 'cleanup'?"),
        (("{model}", "cleanup", "--tolerance", "much"), "--tolerance does not take 'much'"),
        (("{model}", "cleanup", "--metric", "accuracy"), "accepts everything"),
        (("{model}", "cleanup", "--metric", "acuracy=0,1"), "there is no metric 'acuracy'"),
        (("{model}", "cleanup", "--metric", "accuracy=0,much"), "no metric with a range"),
        (
            ("{model}", "cleanup", "--metric", "psnr=0,1", "--tolerance", "1"),
            "--metric and --tolerance exclude each other",
        ),
        (("{model}", "cleanup", "--command", "true", "--inputs", "a.npz"), "--command excludes --inputs"),
        (("{model}", "cleanup", "--command", "/no/such/program"), "cannot be started"),
        (("{model}", "cleanup", "--inputs", "absent.npz"), "absent.npz"),
        (("{model}", "cleanup", "--expect", "absent.npz"), "expected outputs are given without inputs"),
        (("{model}", "cleanup", "-c", "absent.yaml"), "absent.yaml"),
        (("{model}", "cleanup", "--import", "absent_module"), "absent_module"),
    ],
)
def test_wrong_input(run, model, tmp_path, arguments, words):
    answer = run("bisect", *(text.format(model=model, folder=tmp_path) for text in arguments))
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
