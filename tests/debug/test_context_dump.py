"""All values of one sample are kept after each change, under their names, in files that numpy reads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import ComposePass, PassResult, Transformation, apply
from onnx_passes.core.errors import UsageError
from onnx_passes.debug.context_dump import ContextDump

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}>
{ file = Mul (x, w) b = Relu (file) y = Neg (b) }
"""


class Double(Transformation):
    to: float = 2.0

    def call(self, model: ir.Model) -> PassResult:
        weight = model.graph.initializers["w"]
        new = np.array([1, self.to], np.float32)
        changed = not np.array_equal(weight.const_value.numpy(), new)
        weight.const_value = ir.Tensor(new, name="w")
        return PassResult(model, changed)


class Both(ComposePass):
    passes = (Double(to=3), Double(to=3), Double(to=4))


def dump(folder, text=MODEL, passes=Both, **options):
    return apply(ir.from_onnx_text(text), passes, instruments=[ContextDump(folder, **options)], verify=False)


def test_one_file_for_each_change_with_all_values_of_the_first_sample(tmp_path):
    images = np.array([[1, -2], [3, 4], [5, 6]], np.float32)
    np.save(tmp_path / "in.npy", images)
    result = dump(tmp_path / "a" / "b", inputs=[tmp_path / "in.npy"])
    files = sorted((tmp_path / "a" / "b").iterdir())
    assert [file.name for file in files] == ["000-input.npz", "002-double.npz", "004-double.npz"]
    for file, factor in zip(files, (2, 3, 4), strict=True):
        with np.load(file, allow_pickle=False) as stored:
            assert set(stored.files) == {"x", "file", "b", "y"}
            assert stored["x"].tolist() == [[1, -2]]
            assert stored["file"].tolist() == [[1, -2 * factor]]
            assert stored["y"].tolist() == [[-1, 0]]
    assert not any(step.notes for step in result.steps)


def test_without_data_a_sample_is_generated_from_the_seed(tmp_path):
    dump(tmp_path / "a", seed=1)
    dump(tmp_path / "b", seed=1)
    dump(tmp_path / "c", seed=2)
    first, again, other = (np.load(tmp_path / name / "000-input.npz")["x"] for name in "abc")
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_types_that_numpy_cannot_store_are_widened_and_noted(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["": 21]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>
    { a = Mul (x, w) b = Cast <to = 16> (a) c = Cast <to = 22> (a) y = Cast <to = 1> (b) }
    """
    x = np.array([1.003, 3], np.float32)
    result = dump(tmp_path, text, Double(to=2.5), inputs=[{"x": x}])
    with np.load(tmp_path / "000-input.npz", allow_pickle=False) as stored:
        assert stored["b"].dtype == np.float32
        assert stored["b"].tolist() == (x * [1, 2]).astype(ml_dtypes.bfloat16).astype(np.float32).tolist()
        assert stored["c"].dtype == np.int8
    notes = " ".join(result.steps[0].notes)
    assert "000-input.npz: 1 of 5 values of bfloat16 widened to float32" in notes
    assert "001-double.npz: 1 of 5 values of int4 widened to int8" in notes


def test_text_is_stored_and_sequences_are_left_out(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["": 20]>
    g (string[2] s, float[2] x) => (string[2] t, float[2] y) <float[2] w = {1, 2}>
    { t = Identity (s) seq = SequenceConstruct (x, x) y = Mul (x, w) }
    """
    sample = {"s": np.array(["a", "ß"], object), "x": np.zeros(2, np.float32)}
    result = dump(tmp_path, text, Double(to=3), inputs=[sample])
    with np.load(tmp_path / "000-input.npz", allow_pickle=False) as stored:
        assert stored["t"].tolist() == ["a", "ß"]
        assert "seq" not in stored.files
    assert "000-input.npz: 1 of 5 values left out: no tensors" in result.steps[0].notes


def test_values_inside_of_subgraphs_are_left_out(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["": 20]>
    g (bool k, float[2] x) => (float[2] y) <float[2] w = {1, 2}>
    {
        a = Mul (x, w)
        y = If (k) <then_branch = t () => (float[2] r) { inner = Relu (a) r = Neg (inner) },
                    else_branch = e () => (float[2] s) { s = Neg (a) }>
    }
    """
    dump(tmp_path, text, Double(to=3), inputs=[{"k": np.array(True), "x": np.ones(2, np.float32)}])
    assert set(np.load(tmp_path / "000-input.npz").files) == {"k", "x", "a", "y"}


def test_the_limit_is_kept_and_told(tmp_path):
    result = dump(tmp_path, inputs=[np.ones((1, 2), np.float32)], limit=48)
    assert set(np.load(tmp_path / "000-input.npz").files) == {"x", "file", "b", "y"}
    assert len(np.load(tmp_path / "002-double.npz").files) == 2
    assert not (tmp_path / "004-double.npz").exists()
    notes = [note for step in result.steps for note in step.notes]
    assert notes == [
        "002-double.npz: 2 of 4 values left out: the limit of 48 bytes is reached",
        "004-double.npz: 4 of 4 values left out: the limit of 48 bytes is reached",
    ]


def test_models_that_cannot_run_are_noted(tmp_path):
    text = """
    <ir_version: 10, opset_import: ["": 20, "nobody": 1]>
    g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = nobody.Knows (x) y = Mul (a, w) }
    """
    result = dump(tmp_path, text, Double(to=3))
    assert any("Knows" in note for note in result.steps[0].notes)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be created"):
        dump(tmp_path / "file" / "folder")
