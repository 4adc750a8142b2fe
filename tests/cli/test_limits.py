"""Limits on the command line and in the configuration; what explodes stays small where nothing has to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.run.test_resources import CONSTANT, DOUBLING, FOREVER, HEAD, RANGE, needs_fork, on_linux

LARGE_INPUT = f"{HEAD} g (float[40000, 20000] x) => (float[40000, 20000] y) {{ y = Neg(x) }}"
CALLS = " ".join(
    f'<domain: "l", opset_import: ["" : 20, "l" : 1]> F{n} (a) => (b) {{ t = l.F{n - 1}(a) b = l.F{n - 1}(t) }}'
    for n in range(1, 24)
)
LAUGHS = f"""<ir_version: 10, opset_import: ["" : 20, "l" : 1]> g (float[1] x) => (float[1] y) {{ y = l.F23(x) }}
<domain: "l", opset_import: ["" : 20, "l" : 1]> F0 (a) => (b) {{ t = Neg(a) b = Neg(t) }} {CALLS}"""
"""Functions that call the function before twice: sixteen million nodes when inlined."""


@pytest.fixture
def forever(tmp_path: Path) -> Path:
    path = tmp_path / "forever.onnxtxt"
    path.write_text(FOREVER)
    return path


@needs_fork
def test_a_limit_of_time_makes_a_run_unverified_and_a_command_refused(run, forever, tmp_path):
    answer = run("--time-limit", 0.5, "-o", tmp_path / "o.onnx", forever, "verify")
    assert answer.code == 0
    assert "not verified: the model ran longer than 0.5 s; --time-limit sets another limit" in answer.err
    answer = run("run-model", forever, "--time-limit", 0.5)
    assert (answer.code, "ran longer than 0.5 s" in answer.err) == (2, True)
    answer = run("verify", forever, forever, "--time-limit", 0.5)
    assert (answer.code, "ran longer than 0.5 s" in answer.out) == (5, True)
    answer = run("--require", "sampled", "--time-limit", 0.5, "-o", tmp_path / "p.onnx", forever, "verify")
    assert answer.code == 5


@needs_fork
def test_the_command_line_goes_before_the_configuration(run, forever, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("onnxruntime: {time_limit: 0.25, memory_limit: 1GiB}\n")
    answer = run("-c", config, "-o", tmp_path / "o.onnx", forever, "verify")
    assert "ran longer than 0.25 s" in answer.err
    answer = run("-c", config, "--time-limit", 0.5, "-o", tmp_path / "o.onnx", forever, "verify")
    assert "ran longer than 0.5 s" in answer.err


@on_linux
def test_a_limit_of_memory(run, tmp_path):
    (tmp_path / "m.onnxtxt").write_text(RANGE)
    answer = run("run-model", "--memory-limit", "1GiB", tmp_path / "m.onnxtxt")
    assert answer.code == 2
    assert "needs more than 1 GiB of memory" in answer.err


@pytest.mark.parametrize(
    ("option", "text"),
    [("--time-limit", "0"), ("--time-limit", "soon"), ("--memory-limit", "much"), ("--memory-limit", "0")],
)
def test_wrong_limits_are_refused(option, text, run, model):
    answer = run("run-model", option, text, model)
    assert answer.code == 2
    assert "Traceback" not in answer.err


def inspected(path: Path) -> str:
    """Inspect a model in a process with little memory; returns what it prints."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30));"
        "from onnx_passes.cli.main import run_command_line;"
        "code = run_command_line(['inspect', sys.argv[1]]);"
        "usage = resource.getrusage(resource.RUSAGE_SELF);"
        # The largest size that getrusage tells is that of the process that started this one.
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "print(int(peak) // 1024, usage.ru_utime + usage.ru_stime); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    megabytes, seconds = map(float, done.stdout.splitlines()[-1].split())
    assert megabytes < 500
    assert seconds < 5
    return done.stdout


@on_linux
@pytest.mark.parametrize(
    "text",
    [DOUBLING, RANGE, CONSTANT, LARGE_INPUT, LAUGHS],
    ids=["Concat", "Range", "ConstantOfShape", "input", "functions"],
)
def test_inspecting_what_explodes_takes_little(text, tmp_path):
    (tmp_path / "m.onnxtxt").write_text(text)
    assert "total" in inspected(tmp_path / "m.onnxtxt")
