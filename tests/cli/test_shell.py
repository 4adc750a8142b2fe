from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.cli.console import Shell, read
from onnx_passes.cli.main import main
from onnx_passes.session.commands import parse

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2, 3] x) => (float[2, 3] y)
<float two = {2.0}>
{
  [identity] a = Identity(x)
  [double] b = Mul(a, two)
  [relu] y = Relu(b)
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "model.onnx"
    onnx_passes.save(ir.from_onnx_text(MODEL), target)
    return target


@pytest.fixture
def shell(path: Path) -> Shell:
    return Shell(onnx_passes.open(path))


def piped(path: Path, script: str, *options: str, capsys, monkeypatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    code = main(["shell", str(path), *options])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("line", "word", "rest"),
    [
        ("undo", "undo", ""),
        ("  apply fixpoint{max=3}(cleanup)  ", "apply", "fixpoint{max=3}(cleanup)"),
        ("find Conv > Relu", "find", "Conv > Relu"),
        ("why-not cleanup at n1", "why-not", "cleanup at n1"),
        ("?", "help", ""),
    ],
)
def test_commands_are_read(line, word, rest):
    found = parse(line)
    assert found is not None
    assert (found.word, found.rest) == (word, rest)


@pytest.mark.parametrize(
    "line", ["x = 3", "run = 3", "diff(1)", "steps [0]", "steps.current", "save if x else y", "s.undo()", ""]
)
def test_python_is_left_to_python(line):
    assert parse(line) is None


def test_a_script_is_carried_out(path, tmp_path, capsys, monkeypatch):
    script = f"""
# take the model apart
apply eliminate-identity
steps
for number in range(2):
    print("number", number)

len(s.model.graph)
undo
redo
diff 0
pipeline
save {tmp_path / "out.onnx"}
"""
    code, out, err = piped(path, script, capsys=capsys, monkeypatch=monkeypatch)
    assert (code, err) == (0, "")
    assert "→ 1  eliminate-identity: 2 nodes (−1), bits:proved" in out
    assert "number 1\n2\n" in out
    assert "- Identity(x)" in out
    assert "\neliminate-identity\n" in out
    assert [node.op_type for node in onnx_passes.load(tmp_path / "out.onnx").graph] == ["Mul", "Relu"]


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("apply eliminate-identiti\nsteps\n", 2, "did you mean 'eliminate-identity'"),
        ("aply cleanup\nsteps\n", 2, "did you mean 'apply'"),
        ("apply\n", 2, "write 'apply PASS…'"),
        ("steps 3\n", 2, "'steps' takes nothing"),
        ("undo x\n", 2, "'x' is no number of steps"),
        ("undo\n", 2, "cannot undo 1 of 0 steps"),
        ("s.undo()\n", 2, "cannot undo 1 of 0 steps"),
        ("1/0\n", 4, "ZeroDivisionError"),
        ("why nothing-there\n", 2, "neither the model nor any step"),
    ],
)
def test_the_first_error_ends_a_script(path, capsys, monkeypatch, script, code, message):
    found, out, err = piped(path, script + "print('went on')\n", capsys=capsys, monkeypatch=monkeypatch)
    assert found == code
    assert message in err
    assert "went on" not in out


def test_a_failed_verification_is_exit_code_1(path, capsys, monkeypatch):
    script = """
class Wrong(onnx_passes.Transformation, onnx_passes.RewriteRulePass):
    def pattern(self, op, x, c):
        return op.Mul(x, c)
    def rewrite(self, op, x, c):
        return op.Identity(x)

s.apply(Wrong)
"""
    code, _, err = piped(path, script, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 1
    assert "VerificationError: y not as expected" in err
    assert "Traceback" not in err


def test_quit_ends_a_script(path, capsys, monkeypatch):
    code, out, _ = piped(path, "quit\nprint('went on')\n", capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert "went on" not in out


def test_a_wrong_file_is_a_message(tmp_path, capsys):
    assert main(["shell", str(tmp_path / "none.onnx")]) == 2
    assert "none.onnx" in capsys.readouterr().err


def test_branches_are_gone_to(shell):
    assert read(shell, io.StringIO("branch other\napply eliminate-identity\n")) == 0
    assert shell.session.name == "other"
    assert read(shell, io.StringIO("branch main\n")) == 0
    assert shell.session.name == "main"
    assert len(shell.session.steps) == 1


def test_names_of_the_user_go_before_commands(shell, capsys):
    assert read(shell, io.StringIO("steps = 7\nsteps\n")) == 0
    assert capsys.readouterr().out == "7\n"


def test_commands_passes_options_and_nodes_are_completed(shell):
    assert shell.completions("und", "und") == ["undo"]
    assert "eliminate-identity" in shell.completions("apply elim", "elim")
    assert "eliminate-identity" in shell.completions("apply cleanup, elim", "elim")
    assert "max=" in shell.completions("apply fixpoint{ma", "ma")
    assert "eliminate-identity" in shell.completions('s.apply("elim', "elim")
    assert shell.completions("why do", "do") == ["double"]
    assert shell.completions("x = 3", "3") == []


def test_help_needs_no_model(capsys):
    assert main(["shell", "--help"]) == 0
    assert "apply simplify" in capsys.readouterr().out


def test_ipython_knows_commands_and_completes_passes(path):
    program = f"""
from IPython.terminal.interactiveshell import TerminalInteractiveShell
shell = TerminalInteractiveShell.instance(simple_prompt=True)
import onnx_passes
from onnx_passes.cli.console import Shell, prepare_ipython
prepare_ipython(shell, Shell(onnx_passes.open({str(path)!r})))
shell.run_cell("apply eliminate-identity", store_history=True)
shell.run_cell("steps", store_history=True)
shell.run_cell("branch other", store_history=True)
shell.run_cell("help", store_history=True)
print("BRANCH", shell.user_ns["s"].name)
from IPython.core.completer import provisionalcompleter
with provisionalcompleter():
    for line in ("apply eliminate-id", 's.apply("cleanup, eliminate-id', "why dou", "und"):
        print("COMPLETED", line, [found.text for found in shell.Completer.completions(line, len(line))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "eliminate-identity: 2 nodes (−1)" in done.stdout
    assert "undo [STEPS]" in done.stdout
    assert "BRANCH other" in done.stdout
    completed = [line for line in done.stdout.splitlines() if line.startswith("COMPLETED")]
    for line, expected in zip(completed, ["eliminate-identity", "identity", "double", "undo"], strict=True):
        assert expected in line
