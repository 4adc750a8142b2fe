from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.zoo import contents
from onnx_passes.zoo.contents import contents_of, digest_of


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with weights in a file of their own."""
    made = ir.from_onnx_text('<ir_version: 9, opset_import: ["": 18]> g (float[64] x) => (float[64] y) { y = Relu(x) }')
    weights = ir.tensor(np.arange(512, dtype=np.float32), name="w")
    made.graph.register_initializer(ir.Value(name="w", const_value=weights))
    ir.save(made, tmp_path / "m.onnx", external_data="m.data")
    return tmp_path / "m.onnx"


def test_weights_in_a_file_of_their_own_count(model: Path):
    before = contents_of(model)
    assert list(before) == ["m.onnx", "m.data"]
    data = model.with_name("m.data")
    data.write_bytes(data.read_bytes()[:-1] + b"\x01")
    after = contents_of(model, before)
    assert after["m.onnx"] == before["m.onnx"]
    assert digest_of(after) != digest_of(before)
    data.unlink()
    assert contents_of(model, after)["m.data"]["digest"] == "missing"


def test_the_same_content_elsewhere_has_the_same_digest(model: Path, tmp_path: Path):
    before = contents_of(model)
    (tmp_path / "there").mkdir()
    model.with_name("m.data").rename(tmp_path / "there" / "m.data")
    model.rename(tmp_path / "there" / "other.onnx")
    assert digest_of(contents_of(tmp_path / "there" / "other.onnx")) == digest_of(before)


def test_only_files_that_were_written_to_are_read(model: Path, monkeypatch: pytest.MonkeyPatch):
    before, looked_at = contents_of(model), list[str]()
    read = contents.file_digest
    monkeypatch.setattr(contents, "file_digest", lambda path: looked_at.append(path.name) or read(path))
    assert contents_of(model, before) == before
    assert looked_at == []
    os.utime(model.with_name("m.data"))
    touched = contents_of(model, before)
    assert looked_at == ["m.data"]
    assert digest_of(touched) == digest_of(before)


def test_what_is_no_model_has_a_content_too(tmp_path: Path):
    (tmp_path / "bad.onnx").write_bytes(b"location of nothing")
    (tmp_path / "empty.onnx").touch()
    digests = {digest_of(contents_of(tmp_path / name)) for name in ("bad.onnx", "empty.onnx", "none.onnx")}
    assert len(digests) == 3
    assert "missing" in digests
