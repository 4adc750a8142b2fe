from __future__ import annotations

import json

import numpy as np
import pytest

QUANTIZED = """
<ir_version: 8, opset_import: ["": 13, "onnx.brevitas": 1]>
g (float[1, 4] x) => (float[1, 4] y, int64 n)
<float s = {0.5}, float z = {0.0}, float b = {3.0}>
{
    y = onnx.brevitas.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
    n = Size (x)
}
"""


@pytest.fixture
def quantized(tmp_path):
    path = tmp_path / "quantized.onnxtxt"
    path.write_text(QUANTIZED)
    return path


def test_outputs_are_shown(run, quantized, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[-9, 0.25, 0.75, 9]], np.float32))
    answer = run("run-model", quantized, "--inputs", tmp_path / "x.npy")
    assert answer.code == 0
    lines = [line.split() for line in answer.out.splitlines()]
    assert lines[0] == ["output", "type", "shape", "min", "mean", "max"]
    assert lines[1] == ["y", "float32", "[1,4]", "-2", "0.125", "1.5"]
    assert lines[2] == ["n", "int64", "[]", "4", "4", "4"]


def test_outputs_are_written(run, quantized, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.array([[-9, 0.25, 0.75, 9]], np.float32))
    assert run("run-model", quantized, "--inputs", tmp_path / "x.npz", "--output", tmp_path / "out.npz").code == 0
    with np.load(tmp_path / "out.npz") as written:
        assert {name: array.tolist() for name, array in written.items()} == {"y": [[-2, 0, 1, 1.5]], "n": 4}


def test_several_samples_are_stacked(run, quantized, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 1, 4), np.float32))
    assert run("run-model", quantized, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "out.npz").code == 0
    with np.load(tmp_path / "out.npz") as written:
        assert written["y"].shape == (5, 1, 4)
        assert written["n"].tolist() == [4] * 5


def test_seed_decides_about_generated_inputs(run, quantized):
    first, again, other = (
        json.loads(run("run-model", quantized, "--json", "--seed", seed).out)["outputs"] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert first[0]["output"] == "y"
    assert first[0]["shape"] == [1, 4]


def test_numbers_that_json_does_not_know(run, tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text('<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Log (x) }')
    np.save(tmp_path / "x.npy", np.array([-1, 1], np.float32))
    (row,) = json.loads(run("run-model", path, "--inputs", tmp_path / "x.npy", "--json").out)["outputs"]
    assert row["mean"] == "nan"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.onnx"], "there is no such file"),
        (["quantized.onnxtxt", "--inputs", "missing.npy"], "there is no such file"),
        (["quantized.onnxtxt", "--inputs", "."], "is a folder"),
        (["quantized.onnxtxt", "--inputs", "wrong.npy"], "has shape [7] but the model expects [1,4]"),
        (["quantized.onnxtxt", "--output", "out.txt"], "outputs can only be written as .npz"),
        (["quantized.onnxtxt", "--output", "missing/out.npz"], "cannot be written"),
        (["quantized.onnxtxt", "--seed", "x"], "not a valid integer"),
        (["unknown.onnxtxt"], "nothing defines the operator local::Nothing"),
    ],
)
def test_wrong_input_is_one_sentence(run, quantized, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    np.save("wrong.npy", np.zeros(7, np.float32))
    unknown = (
        '<ir_version: 8, opset_import: ["": 13, "local" : 1]> g (float[2] x) => (float[2] y) { y = local.Nothing (x) }'
    )
    (tmp_path / "unknown.onnxtxt").write_text(unknown)
    answer = run("run-model", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
