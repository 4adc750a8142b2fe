"""``onnx-passes batch``: only what changed runs, nothing is lost by a kill, and two runs are compared."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.workers.origin import own_origin
from tests.cli.conftest import MODEL
from tests.helpers.dask import python, two_workers

ROOT = Path(__file__).parents[2]
OFF = ("--verify", "off")

PASSES = """
import os, signal, time
from pathlib import Path
from onnx_passes import PassResult, Transformation, passes

@passes.register()
class Moody(Transformation):
    '''Take a while, and note so; or end the process, if the model is called so.'''
    def call(self, model):
        name = model.graph.name
        if marks := os.environ.get("MARKS"):
            (Path(marks) / f"{name}-{time.monotonic_ns()}").touch()
        if name == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(float(os.environ.get("PAUSE", "0")))
        return PassResult(model, False)
"""


def put(path: Path, name: str = "example", text: str = MODEL) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(ir.to_proto(ir.from_onnx_text(text.replace("example (", f"{name} ("))), path)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    for name in ("a.onnx", "sub/b.onnx", "sub/c.onnx"):
        put(tmp_path / "zoo" / name)
    return tmp_path / "zoo"


@pytest.fixture
def moody(tmp_path: Path) -> Path:
    path = tmp_path / "moody.py"
    path.write_text(PASSES)
    return path


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the manifest as anybody would."""
    connection = sqlite3.connect(folder / "manifest.sqlite")
    connection.row_factory = sqlite3.Row
    found = {row["model"]: dict(row) for row in connection.execute("SELECT * FROM results")}
    connection.close()
    return found


@pytest.fixture
def batch(run, zoo: Path, tmp_path: Path):
    """Run the zoo, and return what was told."""

    def call(*words: object, code: int = 0) -> dict[str, Any]:
        answer = run("batch", zoo, "-o", tmp_path / "out", "--json", "-q", *words)
        assert answer.code == code, answer.err
        return json.loads(answer.out)

    return call


def test_everything_is_in_the_manifest_and_runs_once(run, zoo, tmp_path):
    answer = run("batch", zoo, "-o", tmp_path / "out", "cleanup")
    assert answer.code == 0
    assert "3 models: 3 ran (3 new), 0 up to date" in answer.err
    assert "4 → 3" in answer.err
    found = rows(tmp_path / "out")
    assert list(found) == ["a.onnx", "sub/b.onnx", "sub/c.onnx"]
    row = found["sub/b.onnx"]
    assert (row["status"], row["evidence"], row["nodes_before"], row["nodes_after"]) == ("ok", row["evidence"], 4, 3)
    assert json.loads(row["operators_before"]) == {"Add": 1, "Mul": 2, "Relu": 1}
    assert (row["pipeline"], json.loads(row["options"])) == ("cleanup", {})
    assert json.loads(row["versions"]).keys() >= {"onnx-passes", "onnxruntime", "onnx"}
    assert row["source"] == str(zoo / "sub/b.onnx")
    assert row["source_digest"] == found["a.onnx"]["source_digest"]
    assert row["bytes_after"] == (tmp_path / "out/sub/b.onnx").stat().st_size
    assert row["cpu_seconds"] >= 0
    assert row["wall_seconds"] > 0
    page = (tmp_path / "out/index.html").read_text()
    assert '<a href="sub/b.onnx">sub/b.onnx</a>' in page
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.onnx")}
    answer = run("batch", zoo, "-o", tmp_path / "out", "cleanup")
    assert "3 models: 0 ran, 3 up to date" in answer.err
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_only_what_changed_runs_again(batch, run, zoo, tmp_path):
    assert batch("cleanup", *OFF)["reasons"] == {"new": 3}
    put(zoo / "a.onnx", text=MODEL.replace("{1.0}", "{2.0}"))
    os.utime(zoo / "sub/b.onnx")
    told = batch("cleanup", *OFF)
    assert told["reasons"] == {"model changed": 1}
    assert [model["model"] for model in told["models"] if model["ran"]] == ["a.onnx"]
    (tmp_path / "out/a.onnx").write_bytes(b"by hand")
    (tmp_path / "out/sub/c.onnx").unlink()
    assert batch("cleanup", *OFF)["reasons"] == {"result changed or gone": 2}
    assert len(ir.load(tmp_path / "out/sub/c.onnx").graph) == 3
    (zoo / "sub/c.onnx").unlink()
    told = batch("cleanup", *OFF)
    assert (told["ran"], told["up_to_date"], told["gone"]) == (0, 2, ["sub/c.onnx"])
    assert batch("cleanup", *OFF, "--again")["ran"] == 2
    assert run("batch", zoo / "a.onnx", "-o", tmp_path / "out", "cleanup", *OFF).code == 0
    assert "sub/b.onnx" in (tmp_path / "out/index.html").read_text()


def test_pipeline_options_files_and_versions_decide(batch, zoo, moody, monkeypatch):
    batch("cleanup", *OFF)
    assert batch("cleanup, checker", *OFF)["reasons"] == {"other pipeline": 3}
    assert batch("cleanup, checker", *OFF, "--skip", "checker")["reasons"] == {"other pipeline": 3}
    assert batch("cleanup", *OFF, "--no-external")["reasons"] == {"other pipeline": 3}
    assert batch("cleanup", *OFF)["reasons"] == {"other options": 3}
    assert batch("cleanup", *OFF, "-j", "2")["ran"] == 0
    words = ("--import", moody, "Moody", *OFF)
    batch(*words)
    assert batch(*words)["ran"] == 0
    moody.write_text(PASSES + "\n")
    assert batch(*words)["reasons"] == {"other options": 3}
    monkeypatch.setattr("onnx_passes.workers.origin.versions", lambda: (("onnx-passes", "99"),))
    assert batch(*words)["reasons"] == {"other versions": 3}


def test_data_that_changed_decide(batch, zoo, tmp_path):
    data = tmp_path / "data.npz"
    np.savez(data, a=np.ones((5, 2), np.float32), b=np.ones((5, 2), np.float32))
    for option in ("--dataset", "--inputs"):
        words = ("cleanup", "--metric", "psnr", option, data)
        batch(*words)
        assert batch(*words)["ran"] == 0
        np.savez(data, a=np.ones((6, 2), np.float32), b=np.ones((6, 2), np.float32))
        assert batch(*words)["reasons"] == {"other options": 3}
        np.savez(data, a=np.ones((5, 2), np.float32), b=np.ones((5, 2), np.float32))


def test_failed_models_wait_for_a_change_and_lost_ones_do_not(batch, run, zoo, moody, tmp_path):
    (zoo / "bad.onnx").write_text("no model")
    put(zoo / "dead.onnx", "deadly")
    words = ("--import", moody, "Moody", *OFF, "-j", "2")
    told = {model["model"]: model for model in batch(*words, code=4)["models"]}
    assert [told[name]["status"] for name in ("a.onnx", "bad.onnx", "dead.onnx")] == ["ok", "failed", "lost"]
    assert (told["bad.onnx"]["kind"], told["bad.onnx"]["exit_code"]) == ("usage", 2)
    assert "not an ONNX model" in told["bad.onnx"]["message"]
    assert "SIGKILL" in told["dead.onnx"]["message"]
    assert batch(*words, code=4)["reasons"] == {"lost": 1}
    put(zoo / "dead.onnx", "harmless")
    answer = run("batch", zoo, "-o", tmp_path / "out", *words)
    assert answer.code == 2
    assert "failed (in an earlier run, nothing has changed): this is not an ONNX model" in answer.err
    assert "5 models: 1 ran (1 model changed), 4 up to date, 1 failed" in answer.err
    assert batch(*words, "--retry-failed", code=2)["reasons"] == {"failed": 1}
    put(zoo / "bad.onnx")
    assert batch(*words)["reasons"] == {"model changed": 1}


WRITES_A_NODE = """
import onnx_ir as ir
from onnx_passes import PassResult, Transformation, passes

@passes.verify.equality
@passes.register()
class WritesANode(Transformation):
    '''Rename the last output through an Identity; nothing is proved of it.'''
    def call(self, model):
        (output,) = model.graph.outputs
        name, output.name = output.name, f"{output.name}_inner"
        node = ir.node("Identity", [output])
        new = node.outputs[0]
        new.name, new.type, new.shape = name, output.type, output.shape
        model.graph.append(node)
        model.graph.outputs[0] = new
        return PassResult(model, modified=True)
"""
ENDLESS = """
<ir_version: 10, opset_import: ["": 20]>
endless (float[2] a) => (float[2] y)
<int64 most = {9223372036854775807}, bool go = {1}>
{
    y = Loop (most, go, a) <body = body (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
        d = Identity (c)
        t = Mul (s, s)
    }>
}
"""
ENORMOUS = """
<ir_version: 10, opset_import: ["": 20]>
enormous (float[200000, 100000] a) => (float[200000, 100000] y) { y = Relu (a) }
"""
UNKNOWN = """
<ir_version: 10, opset_import: ["": 20, "nobody": 1]>
unknown (float[2] a) => (float[2] y) { y = nobody.Knows (a) }
"""


@pytest.mark.parametrize("command", [(), ("batch",)], ids=["run", "batch"])
def test_what_could_not_run_is_not_ok(run, zoo, tmp_path, command):
    for path in zoo.rglob("*.onnx"):
        path.unlink()
    put(zoo / "fine.onnx")
    for name, text in (("endless", ENDLESS), ("enormous", ENORMOUS), ("unknown", UNKNOWN)):
        onnx.save(ir.to_proto(ir.from_onnx_text(text)), zoo / f"{name}.onnx")
    (tmp_path / "writes.py").write_text(WRITES_A_NODE)
    passes = ("--import", tmp_path / "writes.py", "writes-a-node", "--time-limit", "2", "--memory-limit", "1GiB")
    answer = run(*command, zoo, "-o", tmp_path / "out", "--json", "-q", *passes)
    assert answer.code == 0
    told = {Path(model["model"]).stem: model["status"] for model in json.loads(answer.out)["models"]}
    assert told == {"fine": "ok", "endless": "unverified", "enormous": "unverified", "unknown": "unverified"}
    warnings = [line for line in answer.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    assert any("unknown.onnx could not be verified: " in line and "Knows" in line for line in warnings)


def test_unverified_models_are_counted_and_got_worse(run, zoo, moody, tmp_path):
    (tmp_path / "writes.py").write_text(WRITES_A_NODE)
    words = ("--import", tmp_path / "writes.py", "writes-a-node")
    assert run("batch", zoo, "-o", tmp_path / "fine", *words).code == 0
    onnx.save(ir.to_proto(ir.from_onnx_text(UNKNOWN)), zoo / "a.onnx")
    onnx.save(ir.to_proto(ir.from_onnx_text(UNKNOWN)), zoo / "new.onnx")
    answer = run("batch", zoo, "-o", tmp_path / "out", *words)
    assert answer.code == 0
    assert "4 models: 4 ran (4 new), 0 up to date, 2 unverified; " in answer.err
    found = rows(tmp_path / "out")
    assert [found[name]["status"] for name in ("a.onnx", "new.onnx", "sub/b.onnx")] == [
        "unverified",
        "unverified",
        "ok",
    ]
    assert "Knows" in found["a.onnx"]["message"]
    page = (tmp_path / "out/index.html").read_text()
    assert '<span class="good">2 ok</span>, <span class="open">2 unverified</span>' in page
    assert page.count('<td class="open">unverified</td>') == 2
    again = run("batch", zoo, "-o", tmp_path / "out", "--json", *words)
    assert json.loads(again.out)["statuses"] == {"ok": 2, "unverified": 2}
    assert "0 ran, 4 up to date, 2 unverified" in again.err
    assert run("batch", "--compare", tmp_path / "fine", tmp_path / "out", "-q").code == 1
    told = json.loads(run("batch", "--compare", tmp_path / "fine", tmp_path / "out", "-q", "--json").out)
    assert [(one["model"], one["what"]) for one in told["worse"]] == [("new.onnx", "status")]
    assert told["totals"]["unverified"] == [0, 1]


def test_the_manifest_says_who_computed_each_model(batch, tmp_path):
    batch("cleanup", *OFF)
    origin = own_origin()
    for row in rows(tmp_path / "out").values():
        assert row["host"] == origin.host
        assert json.loads(row["computed_with"]) == dict(origin.versions)
    assert origin.host in (tmp_path / "out/index.html").read_text()


@pytest.fixture
def slow(zoo: Path, moody: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A batch in a process of its own, which takes a while for each of its models."""
    for number in range(5):
        put(zoo / f"more{number}.onnx", f"more{number}")
    (tmp_path / "marks").mkdir()
    words = ["batch", str(zoo), "-o", str(tmp_path / "out"), "--import", str(moody), "Moody", *OFF, "-j", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MARKS": str(tmp_path / "marks"), "PAUSE": "0.4"}
    process = subprocess.Popen([sys.executable, "-m", "onnx_passes", *words], env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_kill_costs_what_was_in_flight(slow, zoo, moody, tmp_path, batch):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(sqlite3.OperationalError):
            if (tmp_path / "out/manifest.sqlite").exists() and len(rows(tmp_path / "out")) >= 3:
                break
        time.sleep(0.02)
    slow.kill()
    slow.wait()
    (tmp_path / "out/.a.onnx.0123456789ab.tmp").write_bytes(b"left behind")
    kept = rows(tmp_path / "out")
    begun = {path.name.partition("-")[0] for path in (tmp_path / "marks").iterdir()}
    assert 3 <= len(kept) < 8
    # Each of two processes has one at work, and one that it may just have handed over.
    assert len(list((tmp_path / "marks").iterdir())) - len(kept) <= 4, (begun, list(kept))
    told = batch("--import", moody, "Moody", *OFF)
    assert told["reasons"] == {"new": 8 - len(kept)}
    assert told["up_to_date"] == len(kept)
    assert {name: row for name, row in rows(tmp_path / "out").items() if name in kept} == kept
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*") if path.is_file()}
    assert files == {*rows(tmp_path / "out"), "index.html", "manifest.sqlite", ".manifest.lock"}


def test_two_processes_or_a_cluster_make_what_one_does(run, zoo, tmp_path):
    made: list[dict[str, tuple[Any, ...]]] = []
    columns = ("source_digest", "status", "evidence", "nodes_after", "operators_after", "output_digest", "pipeline")

    def seen(folder: Path) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(row[key] for key in columns) for name, row in rows(folder).items()}

    def note(folder: Path, *words: object) -> None:
        answer = run("batch", zoo, "-o", folder, "cleanup", *words)
        assert answer.code == 0, answer.err
        made.append(seen(folder))

    note(tmp_path / "one")
    note(tmp_path / "two", "-j", "2")
    assert made[0] == made[1]
    with two_workers(tmp_path) as (address, _):
        python("-m", "onnx_passes", "batch", zoo, "-o", tmp_path / "many", "cleanup", "--scheduler", address)
    assert made[0] == seen(tmp_path / "many")


def test_runs_are_compared(run, zoo, moody, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    assert run("batch", zoo, "-o", old, "simplify").code == 0
    (zoo / "sub/b.onnx").write_text("no model")
    put(zoo / "d.onnx")
    steady = ("--slower-by", "60")
    answer = run("batch", zoo, "-o", new, "cleanup", *OFF, "--compare", old, "--json", *steady)
    assert answer.code == 1
    told = json.loads(answer.out)["comparison"]
    assert [(one["model"], one["what"], one["old"], one["new"]) for one in told["worse"]] == [
        ("a.onnx", "evidence", told["worse"][0]["old"], "unverified"),
        ("a.onnx", "nodes", "2", "3"),
        ("a.onnx", "size", *(told["worse"][2][key] for key in ("old", "new"))),
        ("sub/b.onnx", "status", "ok", "failed: this is not an ONNX model, or a damaged one"),
        ("sub/c.onnx", "evidence", told["worse"][4]["old"], "unverified"),
        ("sub/c.onnx", "nodes", "2", "3"),
        ("sub/c.onnx", "size", *(told["worse"][6][key] for key in ("old", "new"))),
    ]
    assert (told["better"], told["only_new"], told["changed_models"]) == ([], ["d.onnx"], ["sub/b.onnx"])
    assert "Against ../old" in (new / "index.html").read_text()
    back = run("batch", "--compare", new, old, *steady)
    assert back.code == 0
    assert "0 worse, 7 better" in back.err
    same = run("batch", zoo / "a.onnx", "-o", tmp_path / "third", "simplify", "--compare", old, *steady)
    assert same.code == 0
    assert "0 worse, 0 better" in same.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{z}", "simplify"], "a batch needs models, passes and a folder"),
        (["-o", "{t}/out", "{z}/*/no*.onnx", "simplify"], "no model matches this pattern"),
        (["-o", "{z}", "{z}", "simplify"], "would be overwritten"),
        (["-o", "{t}/out", "{z}", "simplfy"], "there is no pass or group named 'simplfy'"),
        (["--compare", "{z}", "{t}"], "there is no manifest.sqlite in this folder"),
        (["--compare", "{t}"], "--compare without -o needs two folders"),
        (["--compare", "{t}", "{t}"], "a run cannot be compared with itself"),
        (["--compare", "{t}", "{z}", "--slower", "0.5"], "the threshold of time is too small: 0.5"),
    ],
)
def test_what_cannot_be_meant_is_refused(run, zoo, tmp_path, arguments, reason):
    answer = run("batch", *(word.format(z=zoo, t=tmp_path) for word in arguments))
    assert answer.code == 2
    assert reason in answer.err


def test_patterns_keep_the_place_below_what_they_begin_with(run, zoo, tmp_path):
    assert run("batch", f"{zoo}/**/[bc].onnx", "-o", tmp_path / "out", "cleanup", *OFF).code == 0
    assert sorted(rows(tmp_path / "out")) == ["sub/b.onnx", "sub/c.onnx"]
