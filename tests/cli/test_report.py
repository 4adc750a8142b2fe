from __future__ import annotations

import json

import pytest

from tests.cli.conftest import BREAK_ADDS


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "report_plugin.py"
    path.write_text(BREAK_ADDS)
    return path


def test_run_writes_a_report_and_a_trace(run, model, tmp_path):
    page, data, trace = (tmp_path / name for name in ("out.html", "out.json", "trace.json"))
    assert run("-q", "-o", tmp_path / "o.onnx", model, "cleanup", "--report", page, "--trace", trace).code == 0
    assert run("-q", "-o", tmp_path / "o.onnx", model, "cleanup", "--report", data).code == 0
    assert page.read_text().startswith("<!")
    found = json.loads(data.read_text())
    assert found["format"] == 1
    assert found["outcome"] == {"status": "done"}
    assert found["title"].endswith("· cleanup")
    assert json.loads(trace.read_text())["traceEvents"]


def test_failed_run_writes_both_too(run, model, plugin, tmp_path):
    data, trace = tmp_path / "out.json", tmp_path / "trace.json"
    answer = run(
        *("-q", "-o", tmp_path / "o.onnx", model, "cleanup", "break-adds", "--import", plugin),
        *("--report", data, "--trace", trace, "--repro", tmp_path / "repro"),
    )
    assert answer.code == 1
    assert f"report: {data}" in answer.err
    found = json.loads(data.read_text())
    details = found["outcome"]["details"]["details"]
    assert found["outcome"]["status"] == "failed"
    assert found["outcome"]["message"] == "global_output_0 not as expected"
    assert details["text"] == "break-adds"
    assert details["reproducer"] == str(tmp_path / "repro")
    assert details["matched"] == "sum = Add(a, b)"
    assert [step["status"] for step in found["run"]["steps"]].count("failed") >= 1
    assert found["events"][-1]["rule"] == "BreakAdds"
    assert json.loads(trace.read_text())["traceEvents"][-1]["args"]["failed"]


def test_usage_error_writes_no_report(run, model, tmp_path):
    data = tmp_path / "out.json"
    assert run("-o", tmp_path / "o.onnx", model, "no-such-pass", "--report", data).code == 2
    assert not data.exists()


def test_report_over_the_model_is_refused(run, model, tmp_path):
    answer = run("-o", tmp_path / "o.onnx", model, "cleanup", "--report", model)
    assert answer.code == 2
    assert "this file would overwrite the model" in answer.err


def test_report_in_a_missing_folder_is_refused_before_the_run(run, model, tmp_path):
    answer = run("-o", tmp_path / "o.onnx", model, "cleanup", "--report", tmp_path / "no" / "out.html")
    assert answer.code == 2
    assert "the folder does not exist" in answer.err
    assert not (tmp_path / "o.onnx").exists()


def test_comparison_goes_beside_the_second_model_and_says_where(run, model, tmp_path):
    out = tmp_path / "clean.onnx"
    assert run("-q", "-o", out, model, "cleanup").code == 0
    answer = run("report", model, out)
    assert answer.code == 0
    assert answer.out.strip() == str(tmp_path / "clean.report.html")
    assert (tmp_path / "clean.report.html").read_text().startswith("<!")
    assert run("report", model, out, "-o", tmp_path / "d.json").code == 0
    (event,) = json.loads((tmp_path / "d.json").read_text())["events"]
    assert event["removed"]


def test_comparison_refuses_what_it_cannot_do(run, model, tmp_path):
    assert run("report", model).code == 2
    assert "no such file" in run("report", model, tmp_path / "gone.onnx").err.lower()
    assert "the page would overwrite a model" in run("report", model, model, "-o", model).err


def test_demo_writes_a_report(run, tmp_path):
    answer = run("demo", "--report", tmp_path / "demo.json")
    assert answer.code == 0
    assert f"wrote {tmp_path / 'demo.json'}" in answer.err
    assert json.loads((tmp_path / "demo.json").read_text())["run"]["pipeline"] == "streamline"
