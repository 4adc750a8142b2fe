from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest

from tests.cli.conftest import BREAK_ADDS

LONG = """
<ir_version: 10, opset_import: ["": 20]>
long (float[2,3] a, float[2,3] b) => (float[2,3] z, float[2,3] other) {{
    {before}
    s = Add(x19, b)
    {after}
    z = Neg(y19)
    other = Abs(b)
}}
"""
CRASH = """
from onnx_passes import passes, Transformation

@passes.register("crash-on-add")
class CrashOnAdd(Transformation):
    def call(self, model):
        if any(node.op_type == "Add" for node in model.graph):
            raise LookupError("an Add")
"""


@pytest.fixture
def wrong(tmp_path):
    path = tmp_path / "wrong_for_reduce.py"
    path.write_text(BREAK_ADDS)
    return path


@pytest.fixture
def long_model(tmp_path):
    before = " ".join(f"x{i} = {('Neg', 'Tanh')[i % 2]}({f'x{i - 1}' if i else 'a'})" for i in range(20))
    after = " ".join(f"y{i} = {('Neg', 'Tanh')[i % 2]}({f'y{i - 1}' if i else 's'})" for i in range(20))
    path = tmp_path / "long.onnxtxt"
    path.write_text(LONG.format(before=before, after=after))
    return path


def test_a_failing_model_is_reduced_and_kept(run, long_model, wrong, tmp_path):
    folder = tmp_path / "small"
    answer = run("reduce", "--import", wrong, "-o", folder, long_model, "cleanup", "BreakAdds")
    assert answer.code == 0, answer.err
    assert [node.op_type for node in onnx.parser.parse_model(answer.out).graph.node] == ["Add"]
    assert "reduced from 43 to 1 node" in answer.err
    assert "values differ in break-adds, by BreakAdds" in answer.err
    report = json.loads((folder / "report.json").read_text())
    assert report["pipeline"] == "break-adds"
    assert report["imports"] == [str(wrong)]
    assert report["reduced"]["nodes"] == [43, 1]
    onnx.checker.check_model(str(folder / "before.onnx"), full_check=True)
    assert run("repro", "run", folder).code == 1


def test_a_kept_failure_is_reduced(run, long_model, wrong, tmp_path):
    run("--import", wrong, "--repro", tmp_path / "kept", "-o", tmp_path / "o.onnx", long_model, "BreakAdds")
    answer = run("reduce", "--json", "-o", tmp_path / "small", tmp_path / "kept")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["nodes"][1] == 1
    assert found["pipeline"] == "break-adds"
    assert found["kept"] == str(tmp_path / "small")
    assert "Add" in found["model"]


def test_the_model_alone_can_be_kept(run, long_model, wrong, tmp_path):
    target = tmp_path / "small.onnx"
    assert run("reduce", "--import", wrong, "-o", target, long_model, "BreakAdds").code == 0
    assert len(onnx.load(target).graph.node) == 1


def test_inputs_and_tolerance_decide(run, long_model, wrong, tmp_path):
    same = np.ones((2, 3), np.float32)
    np.savez(tmp_path / "zero.npz", a=same * 0, b=same * 0)
    options = ("--import", wrong, "-o", tmp_path / "small", "--inputs", tmp_path / "zero.npz")
    answer = run("reduce", *options, long_model, "BreakAdds")
    assert answer.code == 2
    assert "does not fail on this model" in answer.err
    assert not (tmp_path / "small").exists()


def test_inputs_on_which_the_model_does_not_run_are_refused(run, wrong, tmp_path):
    (tmp_path / "reshape.onnxtxt").write_text(
        '<ir_version: 10, opset_import: ["": 20]> r (float[4] a, int64[1] shape) => (float[n] z) {'
        " y = Reshape(a, shape) z = Add(y, y) }"
    )
    np.savez(tmp_path / "misfit.npz", a=np.ones(4, np.float32), shape=np.array([3]))
    options = ("--import", wrong, "-o", tmp_path / "small", "--inputs", tmp_path / "misfit.npz")
    answer = run("reduce", *options, tmp_path / "reshape.onnxtxt", "BreakAdds")
    assert answer.code == 2
    assert "does not run on these inputs" in answer.err


def test_a_crash_is_reduced(run, long_model, tmp_path):
    (tmp_path / "crash_for_reduce.py").write_text(CRASH)
    options = ("--import", tmp_path / "crash_for_reduce.py", "-o", tmp_path / "small")
    answer = run("reduce", *options, long_model, "crash-on-add")
    assert answer.code == 0, answer.err
    assert "LookupError raised in crash-on-add" in answer.err
    assert run("repro", "run", tmp_path / "small").code == 1


def test_a_command_says_what_fails(run, long_model, tmp_path):
    (tmp_path / "grep.py").write_text("import sys; sys.exit(b'Add' in open(sys.argv[1], 'rb').read())")
    command = f"{sys.executable} -S {tmp_path / 'grep.py'} {{}}"
    answer = run("reduce", "-o", tmp_path / "small", "--command", command, long_model)
    assert answer.code == 0, answer.err
    assert [node.op_type for node in onnx.parser.parse_model(answer.out).graph.node] == ["Add"]
    assert run("reduce", "-o", tmp_path / "small", "--command", "true", long_model).code == 2
    assert run("repro", "run", tmp_path / "small").code == 2


def test_the_configuration_names_passes_and_imports(run, long_model, wrong, tmp_path):
    (tmp_path / "cfg.yaml").write_text(f"imports: [{wrong}]\npasses: [BreakAdds]\nverify: {{}}\n")
    answer = run("reduce", "-c", tmp_path / "cfg.yaml", "-o", tmp_path / "small", long_model)
    assert answer.code == 0, answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.onnx", "cleanup"], "absent.onnx"),
        (["MODEL", "clenup"], "cleanup"),
        (["MODEL"], "Nothing to run"),
        (["MODEL", "cleanup"], "no failure to reduce"),
        (["MODEL", "cleanup", "--command", "true"], "not both"),
        (["MODEL", "cleanup", "-o", "nowhere/small"], "nowhere"),
        (["MODEL", "cleanup", "--tolerance", "much"], "--tolerance"),
        (["MODEL", "cleanup", "--inputs", "absent.npz"], "absent.npz"),
        (["FOLDER"], "report.json"),
    ],
)
def test_wrong_input_is_refused(run, long_model, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    named = {"MODEL": long_model, "FOLDER": tmp_path / "empty"}
    answer = run("reduce", *(named.get(argument, argument) for argument in arguments))
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert not (tmp_path / "onnx-passes-reduced").exists()
