"""Networks in files are the same when they come back, and a folder is never left half written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onnx_passes import IntegerNetwork, examples, integer_network
from onnx_passes.core.errors import UsageError


@pytest.fixture(scope="module")
def digits() -> IntegerNetwork:
    return integer_network(examples.path("digits-mlp"), verify=False)


def test_comes_back_the_same(digits: IntegerNetwork, tmp_path: Path):
    digits.save(tmp_path / "layers")
    loaded = IntegerNetwork.load(tmp_path / "layers")
    assert loaded == digits
    assert str(loaded) == str(digits)
    assert loaded.model is None
    assert loaded.layers[0].nodes == ()


def test_a_changed_number_is_another_network(digits: IntegerNetwork, tmp_path: Path):
    digits.save(tmp_path / "layers")
    with np.load(tmp_path / "layers" / "arrays.npz") as stored:
        arrays = dict(stored)
    key = next(name for name, array in arrays.items() if array.dtype == np.int8)
    arrays[key] = arrays[key] + np.int8(1)
    np.savez(tmp_path / "layers" / "arrays.npz", **arrays)
    assert IntegerNetwork.load(tmp_path / "layers") != digits


def test_the_description_reads_without_us(digits: IntegerNetwork, tmp_path: Path):
    digits.save(tmp_path / "layers")
    data = json.loads((tmp_path / "layers" / "network.json").read_text())
    assert (data["format"], data["version"]) == ("onnx-passes layers", 1)
    tensors = {tensor["name"]: tensor for tensor in data["tensors"]}
    product = next(layer for layer in data["layers"] if layer["kind"] == "product")
    weight = tensors[product["inputs"][1]]
    with np.load(tmp_path / "layers" / "arrays.npz") as arrays:
        values = arrays[weight["values"]]
        assert values.shape == tuple(weight["shape"])
        sums = tensors[product["outputs"][0]]
        assert arrays[sums["lows"]].min() == sums["low"]
    assert (weight["type"], weight["container"], values.dtype) == ("INT4", "int8_t", np.int8)
    assert {layer["name"] for layer in data["layers"]} >= {tensor["source"] for tensor in tensors.values()} - {""}
    assert tensors["image"]["low"] is None


def test_a_network_replaces_one_that_was_written_before(digits: IntegerNetwork, tmp_path: Path):
    for _ in range(2):
        digits.save(tmp_path / "layers")
    assert [path.name for path in tmp_path.iterdir()] == ["layers"]


def test_other_files_are_not_touched(digits: IntegerNetwork, tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        digits.save(tmp_path)
    with pytest.raises(UsageError, match="not a folder"):
        digits.save(tmp_path / "mine.txt")
    with pytest.raises(UsageError, match="does not exist"):
        digits.save(tmp_path / "no" / "layers")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_failure_leaves_what_was_there(digits: IntegerNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digits.save(tmp_path / "layers")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("onnx_passes.backend.files.write_numpy", fail)
    with pytest.raises(UsageError, match="no space left"):
        digits.save(tmp_path / "layers")
    assert [path.name for path in tmp_path.iterdir()] == ["layers"]
    assert IntegerNetwork.load(tmp_path / "layers") == digits


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(format="other"), "not a layers file"),
        (lambda data: data.update(version=2), "version 2, not 1"),
        (lambda data: data["layers"][1].update(kind="magic"), "no kind 'magic'"),
        (lambda data: data["layers"][1]["inputs"].append("nowhere"), "nowhere"),
        (lambda data: data.pop("tensors"), "tensors"),
    ],
)
def test_what_is_wrong_is_a_sentence(digits: IntegerNetwork, tmp_path: Path, change, words: str):
    digits.save(tmp_path / "layers")
    place = tmp_path / "layers" / "network.json"
    data = json.loads(place.read_text())
    change(data)
    place.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=words):
        IntegerNetwork.load(tmp_path / "layers")


def test_what_is_not_there(tmp_path: Path):
    with pytest.raises(UsageError, match=r"network\.json"):
        IntegerNetwork.load(tmp_path)
