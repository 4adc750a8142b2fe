from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import onnx_passes
from onnx_passes.core.registry import REGISTRY


def test_list_shows_every_pass_with_its_summary(run):
    shown = run("list").out
    for entry in REGISTRY.entries():
        assert entry.name in shown
        assert entry.summary in shown


def test_list_filters_by_words_and_kind(run):
    assert "cleanup" not in run("list", "shape").out
    kinds = {entry["kind"] for entry in json.loads(run("list", "--kind", "annotation", "--json").out)}
    assert kinds == {"annotation"}


def test_explain_shows_rewrites_refusals_and_exactness(run):
    for entry in [entry for entry in REGISTRY.entries() if entry.module.startswith("onnx_passes.")]:
        shown = run("explain", entry.name).out
        for word in ("Rewrites:", "Refuses:", "Exactness:"):
            assert word in shown, entry.name


def test_explain_of_an_alias_shows_its_options(run):
    assert "convert-opset18 = convert-opset{version=18}" in run("explain", "convert-opset18").out


def test_plan_says_why(run, model):
    shown = run("plan", model, "cleanup").out
    assert "cleanup" in shown.splitlines()[0]
    assert "requested" in shown.splitlines()[0]
    assert "member of cleanup" in shown


def test_plan_as_json(run):
    data = json.loads(run("plan", "--json", "cleanup").out)
    assert data["steps"][0] == {"depth": 0, "pass": "cleanup", "why": "requested"}


def test_inspect(run, model):
    shown = run("inspect", model).out
    for words in ("ai.onnx 20", "a: float[2]", "global_output_0: float[2]", "2  Mul", "parameters  2"):
        assert words in shown
    data = json.loads(run("inspect", "--json", model).out)
    assert data["operators"] == {"Mul": 2, "Add": 1, "Relu": 1}
    assert data["inputs"][0] == {"name": "a", "dtype": "float", "shape": "[2]", "has_default": False}


def test_diff_of_a_model_with_itself_is_empty(run, model):
    answer = run("diff", model, model)
    assert answer.code == 0
    assert "structurally equal" in answer.out


def test_diff_names_what_changed(run, model, tmp_path):
    out = tmp_path / "out.onnx"
    run("-q", "-o", out, model, "cleanup")
    answer = run("diff", model, out)
    assert answer.code == 1
    assert "Mul" in answer.out


def test_demo_shows_the_tables(run, tmp_path):
    answer = run("demo", "-o", tmp_path / "demo.onnx")
    assert answer.code == 0
    assert "qonnx.custom_op.general::Quant" in answer.err
    assert onnx_passes.load(tmp_path / "demo.onnx").graph.outputs[0].name == "logits"


def test_new_passes_and_their_tests_work(tmp_path):
    for kind in ("rule", "transformation", "annotation", "analysis"):
        made = call("-m", "onnx_passes", "new", f"try-{kind}", "--kind", kind, "-d", str(tmp_path))
        assert made.returncode == 0, made.stderr
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    tested = call("-m", "pytest", *options, str(tmp_path), cwd=tmp_path)
    assert "4 passed" in tested.stdout, tested.stdout + tested.stderr


def test_new_never_overwrites(run, tmp_path):
    assert run("new", "TryIt", "-d", tmp_path).code == 0
    answer = run("new", "TryIt", "-d", tmp_path)
    assert answer.code == 2
    assert "already exists" in answer.err


@pytest.mark.parametrize("name", ["1up", "a b", "a/b", ""])
def test_new_refuses_odd_names(run, tmp_path, name):
    assert run("new", name, "-d", tmp_path).code == 2


def call(*arguments: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **kwargs)


PROBE = """
import sys
from onnx_passes.cli.main import run_command_line
code = run_command_line(sys.argv[1:])
heavy = {"onnx_ir", "onnxruntime", "onnx", "onnxscript", "numpy", "sympy", "rich", "yaml"} & set(sys.modules)
sys.stderr.write(f"\\n{code} {sorted(heavy)}")
"""


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["explain", "cleanup"], ["--version"], ["run", "--help"]])
def test_light_commands_import_nothing_heavy(arguments):
    done = call("-c", PROBE, *arguments)
    assert done.stderr.splitlines()[-1] == "0 []"


CONSOLE = """
import sys
from onnx_passes.cli.main import main
try:
    main()
except SystemExit as end:
    seldom = [name for name in sys.modules if name.startswith(("sympy.", "onnxscript", "onnx_passes.verify.proving"))]
    sys.stderr.write(f"\\n{end.code} {len(seldom)}")
"""


def test_an_unverified_run_of_a_static_model_does_without_sympy_onnxscript_and_provers(tmp_path):
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { t = Neg(x) u = Neg(t) y = Abs(u) }'
    (tmp_path / "in.onnxtxt").write_text(text)
    done = call("-c", CONSOLE, "-q", "simplify", str(tmp_path / "in.onnxtxt"), "--verify", "off")
    assert "y = Abs (x)" in done.stdout
    assert done.stderr.splitlines()[-1] == "0 0"


def test_a_console_script_computes_with_dimensions(tmp_path):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] x) => (float[m, 2] y) {
        t = Concat<axis = 0>(x, x) y = Relu(t) }"""
    (tmp_path / "in.onnxtxt").write_text(text)
    done = call("-c", CONSOLE, str(tmp_path / "in.onnxtxt"), "shape-inference", "-q")
    assert done.stderr.splitlines()[-1].startswith("0 ")
    assert '<float["2*n",2] t>' in done.stdout


def test_module_can_be_run(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "onnx_passes", "--version"], capture_output=True, text=True, check=False
    )
    assert onnx_passes.__version__ in done.stdout


def test_closed_pipe_is_no_error(model):
    script = f"{sys.executable} -m onnx_passes list | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


MINE = """
from onnx_passes import PassResult, Transformation, option, passes

@passes.register()
class MineAlone(Transformation):
    \"\"\"Do nothing of note.\"\"\"

    level: int = option(1)

    def call(self, model):
        return PassResult(model, modified=False)
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["list", "mine"], "mine-alone"),
        (["explain", "mine-alone"], "Do nothing of note."),
        (["plan", "mine-alone{level=2}"], "mine-alone{level=2}  requested"),
        (["list", "--json", "mine"], '"class_name": "MineAlone"'),
    ],
)
@pytest.mark.parametrize("spelling", ["--import {}", "--import={}", "--debug --import {}"])
def test_options_may_come_before_a_command(run, tmp_path, command, words, spelling):
    (tmp_path / "mine.py").write_text(MINE)
    answer = run(*spelling.format(tmp_path / "mine.py").split(), *command)
    assert answer.code == 0, answer.err
    assert words in answer.out


def test_a_configuration_may_come_before_a_command(run, tmp_path):
    (tmp_path / "cfg.yaml").write_text("passes: [remove-unused-nodes]\n")
    assert "remove-unused-nodes  requested" in run("-c", tmp_path / "cfg.yaml", "plan").out


def test_an_option_of_run_is_none_of_list(run):
    answer = run("-o", "out.onnx", "list")
    assert answer.code == 2
    assert "No such option" in answer.err


def test_the_value_of_an_option_is_no_command(run, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("-q", "-o", "list", model, "cleanup").code == 0
    assert (tmp_path / "list").is_file()
