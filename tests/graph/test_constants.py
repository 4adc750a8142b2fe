"""Which values are constant, and what they hold."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.graph.constants import constant, constant_tensor, is_constant, tensor_of_constant_node

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x, float[2] overridable, bool c) => (float[2] y)
<float[2] fixed = {1.0, 2.0}, float[2] overridable = {3.0, 4.0}>
{
  k = Constant <value = float[2] {5.0, 6.0}> ()
  a = Add(fixed, overridable)
  b = Add(a, k)
  y = If (c) <
    then_branch = t () => (float[2] d) <float[2] inner = {7.0, 8.0}> { d = Add(inner, fixed) },
    else_branch = e () => (float[2] f) { f = Add(overridable, b) }
  >
}
"""


@pytest.fixture
def values() -> dict[str, ir.Value]:
    graph = ir.from_onnx_text(TEXT).graph
    nodes = [value for node in graph.all_nodes() for value in (*node.outputs, *node.inputs)]
    return {value.name: value for value in (*graph.inputs, *nodes)}


@pytest.mark.parametrize(
    ("name", "content"), [("fixed", [1, 2]), ("k", [5, 6]), ("inner", [7, 8])], ids=["initializer", "node", "nested"]
)
def test_initializers_and_constant_nodes_are_constant(values, name, content):
    assert is_constant(values[name])
    np.testing.assert_array_equal(constant(values[name]), np.array(content, np.float32))
    assert constant_tensor(values[name]).dtype == ir.DataType.FLOAT


@pytest.mark.parametrize("name", ["x", "c", "overridable", "a", "b", "y", "d"])
def test_what_is_computed_or_can_be_overridden_is_not_constant(values, name):
    assert not is_constant(values[name])
    assert constant(values[name]) is None


def test_an_initializer_that_is_no_longer_an_input_is_constant():
    graph = ir.from_onnx_text(TEXT).graph
    value = graph.initializers["overridable"]
    assert not is_constant(value)
    graph.inputs.remove(value)
    assert constant(value).tolist() == [3, 4]


def test_a_missing_input_is_not_constant():
    assert constant_tensor(None) is None
    assert constant(None) is None
    assert not is_constant(None)


def test_a_constant_that_is_not_yet_in_a_graph_is_constant():
    value = ir.Value(name="new", const_value=ir.Tensor(np.ones(2, np.float32)))
    assert constant(value).tolist() == [1, 1]


def test_an_empty_constant_is_constant():
    text = '<ir_version: 10, opset_import: ["" : 21]> g () => (float[0] y) { y = Constant <value = float[0] {}> () }'
    value = ir.from_onnx_text(text).graph.outputs[0]
    assert is_constant(value)
    assert constant(value).shape == (0,)


KINDS = [
    "value = float[2, 1] {1.0, -0.0}",
    "value = int8 {-3}",
    "value = double[1] {0.1}",
    "value_float = 0.1",
    "value_float = 1.0",
    "value_floats = [1.5, -0.0]",
    "value_int = 7",
    "value_int = -9223372036854775808",
    "value_ints = [1, 2, 3]",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_node_holds_what_the_reference_computes(kind):
    model = ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["" : 21]> g () => (float y) {{ y = Constant <{kind}> () }}'
    )
    (expected,) = ReferenceEvaluator(ir.to_proto(model)).run(None, {})
    found = constant(model.graph.outputs[0])
    assert found.tobytes() == expected.tobytes()
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)


@pytest.mark.parametrize(
    ("attribute", "shape", "content"),
    [
        (ir.AttrString("value_string", "größe"), (), "größe"),
        (ir.AttrStrings("value_strings", ["a", ""]), (2,), ["a", ""]),
        (ir.AttrStrings("value_strings", []), (0,), []),
        (ir.AttrFloat32s("value_floats", []), (0,), []),
        (ir.AttrInt64s("value_ints", []), (0,), []),
    ],
)
def test_texts_and_empty_lists_are_held(attribute, shape, content):
    node = ir.Node("", "Constant", [], [attribute])
    tensor = tensor_of_constant_node(node)
    assert tuple(tensor.shape) == shape
    held = tensor.numpy()
    decoded = np.vectorize(bytes.decode, otypes=[object])(held) if tensor.dtype == ir.DataType.STRING else held
    assert decoded.tolist() == content
    assert is_constant(node.outputs[0])


def test_a_reference_to_an_attribute_of_a_function_holds_nothing_yet():
    text = """
    <ir_version: 10, opset_import: ["" : 21, "my" : 1]>
    g (float[1] x) => (float[1] y) { y = my.f<alpha = 2.0>(x) }
    <domain: "my", opset_import: ["" : 21]>
    f <alpha: float>(x) => (y) { a = Constant<value_float: float = @alpha>()  y = Mul(x, a) }
    """
    (function,) = ir.from_onnx_text(text).functions.values()
    assert not is_constant(function[0].outputs[0])


def test_a_sparse_constant_is_left_alone():
    sparse = onnx.helper.make_sparse_tensor(
        onnx.helper.make_tensor("v", onnx.TensorProto.FLOAT, [1], [1.0]),
        onnx.helper.make_tensor("i", onnx.TensorProto.INT64, [1], [0]),
        [3],
    )
    attribute = ir.Attr("sparse_value", ir.AttributeType.SPARSE_TENSOR, sparse)
    assert not is_constant(ir.Node("", "Constant", [], [attribute]).outputs[0])


def test_a_constant_node_without_attributes_holds_nothing():
    assert not is_constant(ir.Node("", "Constant", []).outputs[0])


@pytest.mark.parametrize(("domain", "op"), [("my", "Constant"), ("", "ConstantOfShape"), ("", "Identity")])
def test_other_operators_are_not_constant(domain, op):
    node = ir.Node(domain, op, [], [ir.AttrTensor("value", ir.Tensor(np.ones(1, np.float32)))])
    assert not is_constant(node.outputs[0])


def test_the_tensor_is_not_copied():
    array = np.ones(1000, np.float32)
    value = ir.Value(name="w", const_value=ir.Tensor(array))
    assert np.shares_memory(constant(value), array)
