"""Several models in one run: files, folders, processes, failures, interrupts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.workers.sharing import memory_share
from tests.cli.conftest import BREAK_ADDS, MODEL


def nodes(path: Path) -> int:
    return len(ir.load(path).graph)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    proto = ir.to_proto(ir.from_onnx_text(MODEL))
    for name in ("a.onnx", "sub/b.onnx"):
        onnx.save(proto, folder / name)
    return folder


def test_a_folder_keeps_its_structure_and_a_failure_does_not_stop_the_rest(run, models, tmp_path):
    (models / "bad.onnx").write_text("no model")
    answer = run("-o", tmp_path / "out", models, "simplify", "-j", "2")
    assert answer.code == 2
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert found == ["a.onnx", "sub/b.onnx"]
    assert nodes(tmp_path / "out" / "sub" / "b.onnx") == 2
    lines = {line.split()[0]: line for line in answer.err.splitlines() if line.strip()}
    assert "4 → 2" in lines["a.onnx"]
    assert "verified: bits:proved" in lines["a.onnx"]
    assert "failed: this is not an ONNX model" in lines["bad.onnx"]
    assert f"{models}/bad.onnx: this is not an ONNX model" in answer.err
    assert "3 models, 2 written, 1 failed" in answer.err


def test_several_files_and_one_document(run, models, tmp_path):
    answer = run("simplify", models / "a.onnx", models / "sub" / "b.onnx", f"{tmp_path}/new/", "--json", "-q")
    assert answer.code == 0
    told = json.loads(answer.out)
    assert [Path(model["output"]).name for model in told["models"]] == ["a.onnx", "b.onnx"]
    assert [model["record"]["nodes"] for model in told["models"]] == [[4, 2], [4, 2]]
    assert [model["status"] for model in told["models"]] == ["ok", "ok"]
    assert told["exit_code"] == 0
    assert answer.err == ""


def test_one_file_may_go_to_a_folder(run, models, tmp_path):
    (tmp_path / "there").mkdir()
    assert run("-o", tmp_path / "there", models / "a.onnx", "cleanup", "--verify", "off").code == 0
    assert nodes(tmp_path / "there" / "a.onnx") == 3


def test_in_place(run, models):
    assert run("--in-place", models, "cleanup", "--verify", "off").code == 0
    assert [nodes(models / name) for name in ("a.onnx", "sub/b.onnx")] == [3, 3]


def test_results_in_the_folder_of_the_models_are_not_read_again(run, models):
    for _ in range(2):
        answer = run("-o", models / "out", models, "cleanup", "--json", "-q", "--verify", "off")
        assert len(json.loads(answer.out)["models"]) == 2


def test_the_worst_failure_is_the_exit_code_and_reproducers_do_not_meet(run, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    passes = tmp_path / "break_adds.py"
    passes.write_text(BREAK_ADDS)
    text = MODEL.replace("sum = Add(a, b)", "sum = Mul(a, b)")
    onnx.save(ir.to_proto(ir.from_onnx_text(text)), models / "good.onnx")
    answer = run("--import", passes, "-o", tmp_path / "out", models, "BreakAdds", "--json", "-q")
    told = {Path(model["model"]).name: model for model in json.loads(answer.out)["models"]}
    assert answer.code == 1
    assert told["a.onnx"]["error"]["kind"] == "verification"
    assert told["good.onnx"]["status"] == "ok"
    assert not (tmp_path / "out" / "a.onnx").exists()
    assert (tmp_path / "onnx-passes-repro" / "sub" / "b.onnx" / "before.onnx").is_file()


def test_weights_in_files_of_their_own_stay_so(run, tmp_path):
    weights = np.arange(2048, dtype=np.float32)
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["": 18]> g (float[2048] x) => (float[2048] y) { y = Relu(x) }'
    )
    model.graph.register_initializer(ir.Value(name="w", const_value=ir.tensor(weights, name="w")))
    model.graph[0].replace_input_with(0, model.graph.initializers["w"])
    ir.save(model, tmp_path / "m.onnx", external_data="m.data")
    answer = run("-o", f"{tmp_path}/out/", tmp_path / "m.onnx", "checker", "--json", "-q")
    assert answer.code == 0, answer.out
    (told,) = json.loads(answer.out)["models"]
    assert (tmp_path / "out" / "m.onnx.data").stat().st_size == weights.nbytes
    assert min(told["file_bytes"]) > weights.nbytes


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{m}/a.onnx", "{m}/sub/b.onnx", "cleanup"], "several models need a folder for their results"),
        (["-o", "{m}", "{m}", "cleanup"], "models are read from this folder: a.onnx would be overwritten"),
        (["-o", "{m}/a.onnx", "{m}", "cleanup"], "several models cannot be written to one file"),
        (
            ["-o", "{m}/o/", "{m}/sub/b.onnx", "{m}/c/b.onnx", "cleanup"],
            "would both be written here; name their common folder",
        ),
        (["-o", "{m}/o/", "{m}", "clenup"], "there is no pass or group named 'clenup'"),
        (["-o", "{m}/o/", "{m}", "cleanup", "--report", "r.html"], "--report takes one model"),
        (["-o", "{m}/o/", "{m}/c", "cleanup"], "there is no model in this folder"),
        (["-o", "{m}/o/", "-", "{m}", "cleanup"], "standard input cannot be one of several models"),
    ],
)
def test_what_cannot_be_meant_is_refused_first(run, models, arguments, reason):
    (models / "c").mkdir()
    answer = run(*(text.format(m=models) for text in arguments))
    assert answer.code == 2
    assert reason in answer.err
    assert not (models / "o").exists()


KILL = """
import os, signal
from onnx_passes import PassResult, Transformation, passes

@passes.register()
class Kill(Transformation):
    '''End the process, if the model is called so.'''
    def call(self, model):
        if model.graph.name == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return PassResult(model, False)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_model_that_ends_its_process_says_so_and_the_others_go_on(run, models, tmp_path, jobs):
    passes = tmp_path / "kill.py"
    passes.write_text(KILL)
    onnx.save(ir.to_proto(ir.from_onnx_text(MODEL.replace("example (", "deadly ("))), models / "b.onnx")
    answer = run("--import", passes, "-o", tmp_path / "out", models, "Kill", "-j", jobs, "--json", "--verify", "off")
    told = {Path(model["model"]).name: model for model in json.loads(answer.out)["models"][:2]}
    assert answer.code == 4
    assert told["a.onnx"]["status"] == "ok"
    assert told["b.onnx"]["error"]["kind"] == "lost"
    assert "its process was lost (SIGKILL)" in told["b.onnx"]["error"]["message"]
    assert "3 models, 2 written, 1 failed" in answer.err


def test_memory_is_shared():
    assert memory_share(1, 2**62) == 2**62
    assert memory_share(4, 2**62) * 4 <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory_share(4, 1000) == 1000


def test_an_interrupt_leaves_only_whole_files(models, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom onnx_passes import passes, Transformation\n"
        "@passes.register()\nclass Slow(Transformation):\n    '''Wait.'''\n"
        "    def call(self, model):\n        time.sleep(60)\n"
    )
    command = [sys.executable, "-m", "onnx_passes", "--import", str(slow), "-o", str(tmp_path / "out"), "-j", "2"]
    # Where tests run in the background of a shell, Ctrl-C is ignored by all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*command, str(models), "Slow", "--verify", "off"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out" / "sub").is_dir() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("command", [(), ("batch",)], ids=["run", "batch"])
def test_the_name_of_one_file_is_no_folder_for_several(run, models, tmp_path, command):
    given = ("-q", models / "a.onnx", models / "sub" / "b.onnx", "cleanup")
    answer = run(*command, "-o", tmp_path / "aa.onnx", *given)
    assert answer.code == 2
    assert "aa.onnx names a single file, but several models are given; name a folder with -o" in answer.err
    assert not (tmp_path / "aa.onnx").exists()
    assert run(*command, "-o", f"{tmp_path}/aa.onnx/", *given).code == 0
    assert (tmp_path / "aa.onnx" / "b.onnx").is_file()
