from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import ComposePass, PassResult, Transformation, apply, load
from onnx_passes.core.errors import UsageError
from onnx_passes.debug.intermediates import Checkpoint, KeepIntermediates

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[2] x) => (float[2] y) { y = Relu(x) }
"""


class Rename(Transformation):
    to: str = "a"

    def call(self, model: ir.Model) -> PassResult:
        changed = model.graph.name != self.to
        model.graph.name = self.to
        return PassResult(model, changed)


class Both(ComposePass):
    passes = (Rename(to="first"), Rename(to="first"), Rename(to="second"))


def test_one_file_for_each_pass_that_changed_something(tmp_path):
    apply(ir.from_onnx_text(MODEL), Both, instruments=[KeepIntermediates(tmp_path / "a" / "b")])
    names = {path.name: load(path).graph.name for path in sorted((tmp_path / "a" / "b").iterdir())}
    assert names == {"000-input.onnx": "g", "002-rename.onnx": "first", "004-rename.onnx": "second"}


def test_checkpoint_is_the_latest(tmp_path):
    apply(ir.from_onnx_text(MODEL), Both, instruments=[Checkpoint(tmp_path / "last.onnx")])
    assert load(tmp_path / "last.onnx").graph.name == "second"


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be created"):
        apply(ir.from_onnx_text(MODEL), Both, instruments=[KeepIntermediates(tmp_path / "file" / "folder")])
