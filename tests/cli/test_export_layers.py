from __future__ import annotations

import json

from onnx_passes import IntegerNetwork, examples

DIGITS = str(examples.path("digits-mlp"))


def test_shows_and_writes_layers(run, tmp_path):
    answer = run("export-layers", DIGITS, "-o", tmp_path / "layers")
    assert answer.code == 0
    assert "threshold" in answer.out
    assert "INT16" in answer.out
    assert len(IntegerNetwork.load(tmp_path / "layers").layers) == 8


def test_prints_json(run):
    data = json.loads(run("export-layers", DIGITS, "--json").out)
    assert [layer["kind"] for layer in data["layers"]][-2:] == ["product", "scale"]


def test_takes_a_model_as_it_is(run):
    answer = run("export-layers", "--no-streamline", DIGITS)
    assert answer.code == 0
    assert "computes in floats" in answer.out


def test_a_place_that_is_taken_is_refused_before_the_work(run, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    answer = run("export-layers", "no-such-model.onnx", "-o", tmp_path)
    assert answer.code == 2
    assert "the folder holds other files" in answer.err
