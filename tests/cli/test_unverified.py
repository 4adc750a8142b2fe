"""A result that could not be verified never looks like one that is right."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

MYSTERY = """<ir_version: 10, opset_import: ["": 20, "mystery": 1]>
g (float[3] x) => (float[3] y) { a = mystery.Op(x) b = Neg(a) c = Neg(b) y = Relu(c) }"""
FINE = MYSTERY.replace("mystery.Op", "Abs").replace(', "mystery": 1', "")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name, text in (("mystery", MYSTERY), ("fine", FINE)):
        onnx.save(onnx.parser.parse_model(text), folder / f"{name}.onnx")
    return folder


def test_a_warning_is_printed_even_if_quiet(run, models, tmp_path):
    out = tmp_path / "out.onnx"
    answer = run("-q", "-o", out, models / "mystery.onnx", "eliminate")
    assert answer.code == 0
    warning = next(line for line in answer.err.splitlines() if line.startswith("warning: "))
    assert warning.startswith("warning: mystery.onnx could not be verified: ")
    assert "mystery::Op" in warning
    assert run("-q", "-o", out, models / "fine.onnx", "eliminate").err == ""


def test_nobody_is_warned_who_switched_verification_off(run, models, tmp_path):
    answer = run("-q", "--verify", "off", "-o", tmp_path / "o.onnx", models / "mystery.onnx", "eliminate")
    assert "warning" not in answer.err


@pytest.mark.parametrize("required", ["metric", "tolerance", "bits", "reals:proved", "sampled"])
def test_evidence_that_cannot_be_had_has_an_exit_code_of_its_own(run, models, tmp_path, required):
    out = tmp_path / "out.onnx"
    answer = run("-q", "-o", out, models / "mystery.onnx", "eliminate", "--require", required)
    assert answer.code == 5
    assert "the run is unverified" in answer.err
    assert not out.exists()


def test_several_models_are_counted(run, models, tmp_path):
    answer = run("-o", tmp_path / "out", models, "eliminate", "--json")
    assert answer.code == 0
    found = {Path(each["model"]).stem: each for each in json.loads(answer.out)["models"]}
    assert found["mystery"]["status"] == "unverified"
    assert found["mystery"]["record"]["level"] == "unverified"
    assert found["fine"]["status"] == "ok"
    assert "2 models, 2 written, 1 not verified, 0 failed" in answer.err
    assert "warning: mystery.onnx could not be verified" in run("-q", "-o", tmp_path / "o", models, "eliminate").err


def test_weaker_evidence_is_a_failed_verification(run, models, tmp_path):
    rounding = """<ir_version: 10, opset_import: ["": 20]>
    g (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y)
    <float[2, 2, 3, 3] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9,
     0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9},
     float[2] s = {0.3, 0.7}, float[2] b = {0.1, 0.2}, float[2] m = {0.3, 0.4}, float[2] v = {0.9, 1.7}>
    { c = Conv(x, w) y = BatchNormalization(c, s, b, m, v) }"""
    model, out = models / "rounding.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(rounding), model)
    for required in ("bits", "sampled", "bits:sampled", "levels", "proved-here"):
        answer = run("-q", "-o", out, model, "fuse-batchnorm", "--require", required)
        assert answer.code == 1
        assert "is required, the run is reals:proved" in answer.err
        assert not out.exists()
    for required in ("reals", "reals:proved-here", "equal-in-reals", "tolerance"):
        assert run("-q", "-o", out, model, "fuse-batchnorm", "--require", required).code == 0
