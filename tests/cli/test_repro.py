from __future__ import annotations

import json

import pytest

from tests.cli.conftest import BREAK_ADDS


@pytest.fixture
def wrong(tmp_path):
    path = tmp_path / "wrong_for_repro.py"
    path.write_text(BREAK_ADDS)
    return path


@pytest.fixture
def folder(run, model, wrong, tmp_path):
    answer = run("--import", wrong, "--repro", tmp_path / "kept", "-o", tmp_path / "o.onnx", model, "BreakAdds")
    assert answer.code == 1
    return tmp_path / "kept"


def test_a_failure_is_repeated(run, folder):
    answer = run("repro", "run", folder)
    assert answer.code == 1
    assert "Post-condition for pass 'BreakAdds' failed" in answer.err
    assert answer.out == ""


def test_a_failure_is_repeated_for_programs(run, folder):
    answer = run("repro", "run", "--json", folder)
    assert answer.code == 1
    found = json.loads(answer.out)
    assert found["fails"] is True
    assert found["failure"]["text"] == "break-adds"


def test_what_is_repaired_no_longer_fails(run, folder):
    report = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text(json.dumps({**report, "pipeline": "cleanup"}))
    answer = run("repro", "run", folder)
    assert answer.code == 0
    assert "'cleanup' no longer fails" in answer.err


def test_other_versions_are_noted(run, folder):
    report = json.loads((folder / "report.json").read_text())
    report["versions"]["onnxruntime"] = "0.0.1"
    (folder / "report.json").write_text(json.dumps(report))
    answer = run("repro", "run", folder)
    assert answer.code == 1
    assert "note: onnxruntime was 0.0.1" in answer.err


def test_wrong_folders_are_refused_in_one_sentence(run, folder, model, tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "absent", tmp_path / "empty", model):
        answer = run("repro", "run", place)
        assert answer.code == 2
        assert len(answer.err.strip().splitlines()) == 1
    for name in ("before.onnx", "inputs-0.npz", "report.json"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(b"nonsense")
        answer = run("repro", "run", folder)
        assert answer.code == 2
        assert name in answer.err
        assert "Traceback" not in answer.err
        (folder / name).write_bytes(content)


def test_unknown_passes_are_refused(run, folder):
    report = json.loads((folder / "report.json").read_text())
    (folder / "report.json").write_text(json.dumps({**report, "pipeline": "clenup", "imports": []}))
    answer = run("repro", "run", folder)
    assert answer.code == 2
    assert "cleanup" in answer.err


def test_help_says_what_it_does(run):
    assert "Run the reproducer in FOLDER" in run("repro", "run", "--help").out
    assert "run" in run("repro", "--help").out
