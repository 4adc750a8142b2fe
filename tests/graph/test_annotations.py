"""Quantization annotations survive, merge and follow renamed tensors."""

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.graph import annotations

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x, bool c) => (float[2] y) <float[1] s = {0.5}, float[1] z = {0.0}>
{
  h = Mul(x, s)
  k = Add(h, z)
  y = If (c) <
    then_branch = t () => (float[2] a) { a = Relu(k) },
    else_branch = e () => (float[2] b) { b = Neg(k) }
  >
}
"""


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


def value(model: ir.Model, name: str) -> ir.Value:
    return next(v for v in annotations.values(model.graph) if v.name == name)


def test_values_cover_inputs_initializers_results_and_subgraphs_once(model):
    names = [v.name for v in annotations.values(model.graph)]
    assert sorted(names) == sorted(["x", "c", "s", "z", "h", "k", "y", "a", "b"])


def test_overridable_initializers_are_one_value():
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[1] x, float[1] w) => (float[1] y)'
        " <float[1] w = {1.0}> { y = Add(x, w) }"
    )
    assert [v.name for v in annotations.values(model.graph)] == ["x", "w", "y"]


def test_set_is_written_to_the_file(model):
    annotations.set(value(model, "h"), {"finn_datatype": "INT4"})
    (written,) = ir.to_proto(model).graph.quantization_annotation
    assert written.tensor_name == "h"
    assert [(e.key, e.value) for e in written.quant_parameter_tensor_names] == [("finn_datatype", "INT4")]


def test_setting_nothing_removes(model):
    h = value(model, "h")
    annotations.set(h, {"finn_datatype": "INT4"})
    annotations.set(h, {})
    assert annotations.get(h) == {}
    assert not ir.to_proto(model).graph.quantization_annotation


def test_get_returns_a_copy(model):
    h = value(model, "h")
    annotations.set(h, {"finn_datatype": "INT4"})
    annotations.get(h)["finn_datatype"] = "INT8"
    assert annotations.get(h) == {"finn_datatype": "INT4"}


def test_set_does_not_reach_into_a_clone(model):
    annotations.set(value(model, "h"), {"finn_datatype": "INT4"})
    clone = model.clone()
    annotations.set(value(clone, "h"), {"finn_datatype": "INT8"})
    assert annotations.get(value(model, "h")) == {"finn_datatype": "INT4"}


def test_merge_keeps_what_is_there(model):
    h, k = value(model, "h"), value(model, "k")
    annotations.set(h, {"finn_datatype": "INT4", "SCALE_TENSOR": "s"})
    annotations.set(k, {"finn_datatype": "INT8"})
    annotations.merge(k, h)
    assert annotations.get(k) == {"finn_datatype": "INT8", "SCALE_TENSOR": "s"}
    assert annotations.get(h) == {"finn_datatype": "INT4", "SCALE_TENSOR": "s"}


def test_only_keys_that_name_tensors_are_references(model):
    annotations.set(value(model, "h"), {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "z", "finn_datatype": "INT4"})
    annotations.set(value(model, "a"), {"SCALE_TENSOR": "inner"})
    assert annotations.referenced_names(model.graph) == {"s", "z", "inner"}


def test_references_follow_a_renamed_tensor(model):
    h = value(model, "h")
    annotations.set(h, {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "z", "finn_datatype": "s"})
    value(model, "s").name = "scale"
    assert annotations.rename_references(model.graph, {"s": "scale"}) == 1
    assert annotations.get(h) == {"SCALE_TENSOR": "scale", "ZERO_POINT_TENSOR": "z", "finn_datatype": "s"}
    proto = ir.to_proto(model)
    named = {t.name for t in proto.graph.initializer}
    entries = {e.key: e.value for a in proto.graph.quantization_annotation for e in a.quant_parameter_tensor_names}
    assert {entries["SCALE_TENSOR"], entries["ZERO_POINT_TENSOR"]} <= named
    onnx.checker.check_model(proto)
