from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph.encode import INPUT, OUTPUT, VALUE, Encoder, ValueEncoder
from tests.helpers.random_models import random_model

TEXT = """
<ir_version: 10, opset_import: ["": 20, "odd.domain": 1]>
g (float[2,3] x, bool c) => (float[2,3] y)
{
    [transposed] t = Transpose<perm=[1, 0]>(x)
    a, b = Split<axis=-1, num_outputs=2>(t)
    e = odd.domain.Odd<alpha=-0.5, betas=[0.25, -1e30], mode="ß", modes=["a", "b"], big=-5>(a, , b)
    k = Constant<value=float[2] {1.0, 2.0}>()
    y = If(c)<then_branch=t1 () => (float[2,3] u) { u = Neg(x) }, else_branch=e1 () => (float[2,3] v) { v = Abs(x) }>
}
"""


def decoded(graph: ir.Graph) -> list[onnx.NodeProto]:
    return list(onnx.GraphProto.FromString(Encoder().nodes(graph)).node)


def test_every_kind_of_attribute_reads_back_as_serialised_by_onnx_ir():
    model = ir.from_onnx_text(TEXT)
    assert decoded(model.graph) == list(ir.to_proto(model).graph.node)


def test_attributes_that_refer_to_those_of_a_function_read_back_as_serialised_by_onnx_ir():
    attributes = [
        ir.RefAttr("alpha", "a", ir.AttributeType.FLOAT),
        ir.RefAttr("axis", "b", ir.AttributeType.INT),
        ir.RefAttr("mode", "c", ir.AttributeType.STRING),
        ir.RefAttr("perm", "d", ir.AttributeType.INTS),
        ir.RefAttr("value", "e", ir.AttributeType.TENSOR),
    ]
    node = ir.Node("", "Op", [], attributes)
    assert decoded(ir.Graph([], [], nodes=[node])) == [ir.serde.serialize_node(node)]


@given(st.integers(0, 10_000))
def test_random_models_read_back_as_serialised_by_onnx_ir(seed):
    model = random_model(seed)
    expected = list(ir.to_proto(model).graph.node)
    for node in expected:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    assert [n.SerializeToString(deterministic=True) for n in decoded(model.graph)] == [
        n.SerializeToString(deterministic=True) for n in expected
    ]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.floats(width=32)))
def test_numbers_keep_all_bits(integers, floats):
    attributes = [ir.AttrInt64s("i", integers), ir.AttrFloat32s("f", floats)]
    node = ir.Node("", "Op", [], attributes)
    (found,) = decoded(ir.Graph([], [], nodes=[node]))
    assert list(found.attribute[0].ints) == integers
    assert np.array_equal(np.array(found.attribute[1].floats, np.float32), np.array(floats, np.float32), equal_nan=True)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000])
def test_texts_of_any_length(length):
    node = ir.Node("", "Op", [], [ir.AttrString("s", "ä" * length)], name="n" * length)
    (found,) = decoded(ir.Graph([], [], nodes=[node]))
    assert found.attribute[0].s.decode() == "ä" * length
    assert len(found.name) == length


VALUES = {
    "plain": ir.val("x", ir.DataType.FLOAT, [2, 0, 3]),
    "names": ir.val("x", ir.DataType.INT4, ["N", "2*N + 1", None]),
    "negative": ir.Value(name="x", type=ir.TensorType(ir.DataType.BFLOAT16), shape=ir.Shape([-1])),
    "scalar": ir.val("ß", ir.DataType.BOOL, []),
    "no shape": ir.Value(name="x", type=ir.TensorType(ir.DataType.STRING)),
    "sequence": ir.Value(name="x", type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)), shape=ir.Shape([2])),
    "optional": ir.Value(name="x", type=ir.OptionalType(ir.TensorType(ir.DataType.FLOAT))),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_read_back_as_serialised_by_onnx_ir(value):
    encoder = ValueEncoder()
    graph = onnx.GraphProto.FromString(b"".join(encoder.value(field, value) for field in (INPUT, OUTPUT, VALUE, VALUE)))
    expected = ir.serde.serialize_value(value)
    assert [*graph.input, *graph.output, *graph.value_info] == [expected] * 4


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT4, ir.DataType.BFLOAT16])
def test_initializers_read_back_as_serialised_by_onnx_ir(dtype):
    tensor = ir.Tensor(np.arange(5).astype(dtype.numpy()), dtype, name="other")
    texts = ir.StringTensor([b"a", b"b"], shape=ir.Shape([2]), name="w")
    encoder = ValueEncoder()
    fields = [*(encoder.initializer("w", held) for held in (tensor, texts)), encoder.typed(INPUT, "w", tensor)]
    graph = onnx.GraphProto.FromString(b"".join(fields))
    expected = ir.serde.serialize_tensor(tensor)
    expected.name = "w"
    assert list(graph.initializer) == [expected, ir.serde.serialize_tensor(texts)]
    assert list(graph.input) == [ir.serde.serialize_value(ir.val("w", dtype, [5]))]
