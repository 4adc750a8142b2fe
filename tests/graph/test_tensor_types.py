"""Data types, layouts and sparsity are read from annotations, and text in a model is never evaluated."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.datatypes import parse
from onnx_passes.graph import annotations
from onnx_passes.graph.tensor_types import (
    datatype_of,
    layout_of,
    set_datatype,
    set_layout,
    set_sparsity,
    sparsity_of,
)

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'


def annotated(**texts: str) -> ir.Value:
    value = ir.Value(name="t")
    annotations.set(value, texts)
    return value


def test_reads_what_qonnx_writes():
    value = annotated(
        finn_datatype="INT4",
        tensor_layout="['N', 'H', 'W', 'C']",
        tensor_sparsity="{'dw': {'kernel_shape': [3, 3]}}",
    )
    assert datatype_of(value) == parse("INT4")
    assert layout_of(value) == ("N", "H", "W", "C")
    assert sparsity_of(value) == {"dw": {"kernel_shape": [3, 3]}}


def test_nothing_is_annotated():
    value = ir.Value(name="t")
    assert (datatype_of(value), layout_of(value), sparsity_of(value)) == (None, None, None)
    assert not set_datatype(value, None)
    assert value._metadata is None


def test_writes_what_qonnx_reads_and_says_whether_it_changed_something():
    value = ir.Value(name="t")
    assert set_datatype(value, "UINT1")
    assert set_layout(value, ("N", "C"))
    assert set_sparsity(value, {"dw": {"kernel_shape": [3, 3]}})
    assert annotations.get(value) == {
        "finn_datatype": "BINARY",
        "tensor_layout": "['N', 'C']",
        "tensor_sparsity": "{'dw': {'kernel_shape': [3, 3]}}",
    }
    assert not set_datatype(value, parse("BINARY"))
    assert not set_layout(value, ["N", "C"])
    assert set_layout(value, None)
    assert set_sparsity(value, None)
    assert set_datatype(value, None)
    assert annotations.get(value) == {}


def test_other_annotations_stay():
    value = annotated(SCALE_TENSOR="s", finn_datatype="INT4")
    set_datatype(value, "INT8")
    set_datatype(value, None)
    assert annotations.get(value) == {"SCALE_TENSOR": "s"}


def test_the_file_holds_them(tmp_path: Path):
    model = ir.from_onnx_text(HEADER + "g (float[2] x) => (float[2] y) { y = Relu (x) }")
    set_datatype(model.graph.inputs[0], "INT4")
    set_layout(model.graph.outputs[0], ["N"])
    ir.save(model, tmp_path / "m.onnx")
    stored = {a.tensor_name: a for a in onnx.load(tmp_path / "m.onnx").graph.quantization_annotation}
    entry = stored["x"].quant_parameter_tensor_names[0]
    assert (entry.key, entry.value) == ("finn_datatype", "INT4")
    again = ir.load(tmp_path / "m.onnx")
    assert datatype_of(again.graph.inputs[0]) == parse("INT4")
    assert layout_of(again.graph.outputs[0]) == ("N",)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch {path}')",
        "[__import__('os').system('touch {path}')]",
        "open('{path}', 'w')",
        "(lambda: open('{path}', 'w'))()",
        "[open('{path}', 'w') for _ in 'a']",
        "f\"{{open('{path}', 'w')}}\"",
    ],
)
@pytest.mark.parametrize("read", [layout_of, sparsity_of, datatype_of])
def test_text_is_never_evaluated(text: str, read: object, tmp_path: Path):
    path = tmp_path / "evil"
    evil = text.format(path=path.as_posix())
    assert callable(read)
    with pytest.raises(ModelError, match="of tensor 't'"):
        read(annotated(finn_datatype=evil, tensor_layout=evil, tensor_sparsity=evil))
    assert not path.exists()


@pytest.mark.parametrize(
    ("key", "read", "text", "message"),
    [
        ("tensor_layout", layout_of, "NCHW", "is not a plain literal"),
        ("tensor_layout", layout_of, "'NCHW'", "is not a list of names of axes"),
        ("tensor_layout", layout_of, "[1, 2]", "is not a list of names of axes"),
        ("tensor_layout", layout_of, "", "is not a plain literal"),
        ("tensor_layout", layout_of, "(" * 5000, "is not a plain literal"),
        ("tensor_layout", layout_of, "-" * 9000 + "1", "is not a plain literal"),
        ("tensor_layout", layout_of, "[" + "'N'," * 5000 + "]", "is too long"),
        ("tensor_sparsity", sparsity_of, "[1]", "is not a mapping"),
        ("tensor_sparsity", sparsity_of, "{1: 2}", "is not a mapping"),
        ("tensor_sparsity", sparsity_of, "{[]: 2}", "is not a plain literal"),
        ("finn_datatype", datatype_of, "INT", "there is no data type 'INT'"),
        ("finn_datatype", datatype_of, "int4", "did you mean 'INT4'"),
    ],
)
def test_malformed_text_names_tensor_and_key(key: str, read: object, text: str, message: str):
    assert callable(read)
    with pytest.raises(ModelError, match=message) as caught:
        read(annotated(**{key: text}))
    assert caught.value.where == f"{key} of tensor 't'"
    assert len(str(caught.value)) < 300


def test_no_unknown_type_is_written():
    value = ir.Value(name="t")
    with pytest.raises(UsageError, match="there is no data type"):
        set_datatype(value, "INT")
    assert datatype_of(value) is None
