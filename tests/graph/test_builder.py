"""The builder: what may be given as inputs and attributes, and what it makes of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import RewriteError
from onnx_passes.graph.builder import Builder
from onnx_passes.rewrite.driver import rewrite
from tests.rewrite.support import assert_valid, parse, rule


def typed(name: str, dtype: str | None = "FLOAT", shape: list[int] | None = None) -> ir.Value:
    type_ = None if dtype is None else ir.TensorType(ir.DataType[dtype])
    return ir.Value(name=name, type=type_, shape=ir.Shape(shape or [2]))


@pytest.fixture
def op() -> Any:
    return Builder({"": 21})


class TestNumbers:
    @pytest.mark.parametrize(
        ("dtype", "held"),
        [
            ("FLOAT", np.float32),
            ("FLOAT16", np.float16),
            ("DOUBLE", np.float64),
            ("BFLOAT16", ml_dtypes.bfloat16),
            ("INT64", np.int64),
            ("INT8", np.int8),
            ("UINT8", np.uint8),
        ],
    )
    def test_take_the_type_of_the_other_input(self, op: Any, dtype: str, held: Any) -> None:
        x = typed("x", dtype)
        for made in (op.Add(x, 3), op.Add(3, x), op.Add(x, 3.0)):
            [number] = [item for item in made.producer().inputs if item is not x]
            assert number.dtype == ir.DataType[dtype]
            assert number.const_value.numpy().dtype == held
            assert number.const_value.numpy().shape == ()
            assert number.const_value.numpy().item() == 3
            assert made.dtype == ir.DataType[dtype]

    def test_lists_become_rank_1(self, op: Any) -> None:
        made = op.Mul(typed("x", "FLOAT16"), [1, 0.5])
        number = made.producer().inputs[1].const_value
        assert (number.dtype, number.shape) == (ir.DataType.FLOAT16, ir.Shape([2]))

    def test_where_the_schema_says_so(self, op: Any) -> None:
        x = typed("x")
        assert op.Reshape(x, [1, -1]).producer().inputs[1].dtype == ir.DataType.INT64
        assert op.Reshape(x, []).producer().inputs[1].dtype == ir.DataType.INT64
        assert op.Where(True, x, 0.0).producer().inputs[0].dtype == ir.DataType.BOOL
        assert op.Slice(x, [0], [1]).producer().inputs[2].dtype == ir.DataType.INT64
        assert op.Pow(typed("h", "FLOAT16"), 2).producer().inputs[1].dtype == ir.DataType.FLOAT16
        assert op.Clip(x, None, 6).producer().inputs[2].dtype == ir.DataType.FLOAT

    def test_of_numpy_scalars_that_are_python_floats_count_as_numbers(self, op: Any) -> None:
        made = op.Mul(typed("x"), np.sqrt(2) / 2)
        assert made.producer().inputs[1].dtype == ir.DataType.FLOAT

    @pytest.mark.parametrize(
        ("build", "message"),
        [
            (lambda op: op.Add(typed("x", None), 1.0), "the type of 1.0 as input 1 of Add is not known"),
            (lambda op: op.Mystery(typed("x"), 1.0), "the type of 1.0 as input 1 of Mystery is not known"),
            (lambda op: op.Add(1.0, 2.0), "the type of 1.0 as input 0 of Add is not known"),
            (lambda op: op.Quant(typed("x"), 1, _domain="qonnx"), "the type of 1 as input 1 of Quant is not known"),
            (lambda op: op.Add(typed("x", "INT64"), 0.5), "0.5 as input 1 of Add does not fit into INT64"),
            (lambda op: op.Add(typed("x", "UINT8"), -1), "-1 as input 1 of Add does not fit into UINT8"),
            (lambda op: op.Add(typed("x", "INT8"), 200), "200 as input 1 of Add does not fit into INT8"),
            (lambda op: op.Add(typed("x", "FLOAT16"), 1e6), "1000000.0 as input 1 of Add does not fit into FLOAT16"),
            (lambda op: op.And(typed("x", "BOOL"), 2), "2 as input 1 of And does not fit into BOOL"),
            (lambda op: op.Reshape(typed("x"), [1.5]), r"[1.5] as input 1 of Reshape does not fit into INT64"),
            (lambda op: op.Add(typed("x"), "1"), "str is not a tensor"),
            (lambda op: op.Add(typed("x"), object()), "object is not a tensor"),
            (
                lambda op: op.Add(typed("x"), np.zeros(2)),
                "input 1 of Add is DOUBLE, where FLOAT is needed",
            ),
            (
                lambda op: op.Add(np.zeros(2), typed("x")),
                "input 0 of Add is DOUBLE, where FLOAT is needed",
            ),
            (
                lambda op: op.Reshape(typed("x"), np.array([1, 2], np.int32)),
                "input 1 of Reshape is INT32, where INT64 is needed",
            ),
        ],
    )
    def test_that_cannot_be_typed_are_an_error(self, op: Any, build: Any, message: str) -> None:
        with pytest.raises(RewriteError) as caught:
            build(op)
        assert message in str(caught.value)
        assert caught.value.hint

    @pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
    def test_that_are_not_finite_stay_so(self, op: Any, number: float) -> None:
        made = op.Max(typed("x", "FLOAT16"), number)
        np.testing.assert_array_equal(made.producer().inputs[1].const_value.numpy(), number)

    def test_floats_are_rounded(self, op: Any) -> None:
        made = op.Mul(typed("x", "FLOAT16"), 0.1)
        assert made.producer().inputs[1].const_value.numpy() == np.float16(0.1)


class TestArrays:
    def test_keep_their_type(self, op: Any) -> None:
        for array in (np.float16([1]), np.array(2, ml_dtypes.bfloat16), np.int8(3), np.array([1, -2], ml_dtypes.int4)):
            made = op.Mystery(array)
            held = made.producer().inputs[0].const_value
            np.testing.assert_array_equal(held.numpy(), array)
            assert held.dtype == ir.DataType.from_numpy(array.dtype)

    def test_are_not_copied(self, op: Any) -> None:
        array = np.zeros(1000, np.float32)
        made = op.Add(typed("x"), array)
        assert np.shares_memory(made.producer().inputs[1].const_value.numpy(), array)

    def test_tensors_are_taken_as_they_are(self, op: Any) -> None:
        tensor = ir.tensor([1.0, 2.0], name="mine")
        made = op.Add(typed("x"), tensor)
        assert made.producer().inputs[1].const_value is tensor
        assert made.producer().inputs[1].name == "mine"

    def test_zero_sizes_and_rank_0(self, op: Any) -> None:
        for array in (np.zeros((0, 3), np.float32), np.float32(1)):
            value = op.initializer(array)
            assert tuple(value.shape.numpy()) == array.shape


class TestInitializers:
    def test_have_type_shape_and_a_wished_name(self, op: Any) -> None:
        value = op.initializer(np.zeros((2, 3), np.float16), name="w")
        assert (value.name, value.dtype, value.shape) == ("w", ir.DataType.FLOAT16, ir.Shape([2, 3]))
        assert op.initializer(ir.tensor([1.0], name="own")).name == "own"
        assert op.initializers == [value, op.initializers[1]]

    def test_of_something_else_are_an_error(self, op: Any) -> None:
        with pytest.raises(RewriteError, match="Value is not a tensor"):
            op.initializer(typed("x"))

    def test_become_constant_nodes_where_there_are_none(self) -> None:
        op = Builder({"": 21}, initializers_allowed=False)
        value = op.initializer(np.float32([1, 2]), name="c")
        assert value.producer() is op.nodes[0]
        assert (value.name, value.dtype, value.shape) == ("c", ir.DataType.FLOAT, ir.Shape([2]))
        np.testing.assert_array_equal(value.const_value.numpy(), [1, 2])
        made = op.Add(typed("x"), 1.0)
        assert made.producer().inputs[1].producer().op_type == "Constant"


class TestOutputs:
    def test_are_typed_as_far_as_the_schema_tells(self, op: Any) -> None:
        x = typed("x", "FLOAT16")
        assert op.Relu(x).dtype == ir.DataType.FLOAT16
        assert op.Shape(x).dtype == ir.DataType.INT64
        assert op.Greater(x, x).dtype == ir.DataType.BOOL
        assert op.Mystery(x).dtype is None
        assert op.Relu(typed("u", None)).dtype is None

    def test_of_a_cast_have_its_target(self, op: Any) -> None:
        assert op.Cast(typed("x"), to=ir.DataType.INT8).dtype == ir.DataType.INT8
        assert op.Cast(typed("x"), to=onnx.TensorProto.BOOL).dtype == ir.DataType.BOOL

    def test_of_a_constant_have_its_value(self, op: Any) -> None:
        for given in ({"value": ir.tensor([1.0])}, {"value_float": 1.0}, {"value_ints": [1, 2]}, {"value": np.ones(2)}):
            value = op.Constant(**given)
            assert value.const_value is not None
            assert value.dtype == value.const_value.dtype
            assert value.shape == value.const_value.shape

    def test_sequences_stay_sequences(self, op: Any) -> None:
        sequence = ir.Value(name="s", type=ir.SequenceType(ir.TensorType(ir.DataType.FLOAT)))
        assert isinstance(op.Identity(sequence).type, ir.SequenceType)
        assert op.SequenceInsert(sequence, typed("x")).type == sequence.type

    def test_share_no_type_with_the_inputs(self, op: Any) -> None:
        x = typed("x")
        op.Relu(x).dtype = ir.DataType.FLOAT16
        assert x.dtype == ir.DataType.FLOAT

    def test_may_be_several_and_named(self, op: Any) -> None:
        first, second = op.Split(typed("x"), num_outputs=2, _outputs=2)
        assert (first.name, second.name, second.dtype) == (None, None, ir.DataType.FLOAT)
        values = op.TopK(typed("x"), [1], _outputs=["top", None])
        assert [item.name for item in values] == ["top", None]
        assert [item.dtype for item in values] == [ir.DataType.FLOAT, ir.DataType.INT64]

    def test_optional_inputs_are_left_out_with_none(self, op: Any) -> None:
        made = op.Clip(typed("x"), None, typed("hi"))
        assert made.producer().inputs[1] is None


class TestAttributes:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (1, ir.AttrInt64("a", 1)),
            (True, ir.AttrInt64("a", 1)),
            (np.int32(1), ir.AttrInt64("a", 1)),
            (np.bool_(True), ir.AttrInt64("a", 1)),
            (0.5, ir.AttrFloat32("a", 0.5)),
            (np.float64(0.5), ir.AttrFloat32("a", 0.5)),
            ("text", ir.AttrString("a", "text")),
            ([1, 2], ir.AttrInt64s("a", [1, 2])),
            ((1.0, 2.0), ir.AttrFloat32s("a", [1.0, 2.0])),
            (["x", "y"], ir.AttrStrings("a", ["x", "y"])),
        ],
    )
    def test_of_unknown_operators_are_typed_by_their_value(self, op: Any, given: Any, expected: ir.Attr) -> None:
        made = op.Mystery(typed("x"), a=given).producer().attributes["a"]
        assert (made.name, made.type, made.value) == (expected.name, expected.type, expected.value)

    def test_of_known_operators_are_typed_by_the_schema(self, op: Any) -> None:
        x = typed("x")
        assert op.LeakyRelu(x, alpha=1).producer().attributes["alpha"].as_float() == 1.0
        assert op.Transpose(x, perm=np.array([1, 0])).producer().attributes["perm"].as_ints() == (1, 0)
        assert op.Transpose(x, perm=[]).producer().attributes["perm"].as_ints() == ()
        assert op.Upsample(x, scales=[1, 2], _version=7).producer().attributes["scales"].as_floats() == (1.0, 2.0)
        with pytest.raises(TypeError):
            op.Transpose(x, perm=[1.5, 0])

    def test_arrays_become_tensors(self, op: Any) -> None:
        made = op.Mystery(typed("x"), a=np.ones(2, np.float16)).producer().attributes["a"]
        assert made.as_tensor().dtype == ir.DataType.FLOAT16

    def test_none_is_left_out(self, op: Any) -> None:
        assert not op.Transpose(typed("x"), perm=None).producer().attributes

    def test_of_other_nodes_take_the_name_given_here(self, op: Any) -> None:
        node = ir.Node("", "Softmax", [typed("x")], [ir.AttrInt64("axis", 3)])
        made = op.Mystery(typed("x"), dim=node.attributes["axis"]).producer().attributes["dim"]
        assert (made.name, made.as_int()) == ("dim", 3)
        reference = op.Mystery(typed("x"), dim=ir.RefAttr("axis", "outer", ir.AttributeType.INT))
        made = reference.producer().attributes["dim"]
        assert (made.name, made.ref_attr_name) == ("dim", "outer")

    def test_all_of_another_node_may_be_passed_on(self, op: Any) -> None:
        node = ir.Node("", "Conv", [typed("x")], [ir.AttrInt64s("pads", [1, 1]), ir.AttrInt64("group", 2)])
        made = op.op("Conv", typed("x"), **node.attributes).producer()
        assert dict(made.attributes) == dict(node.attributes)


class TestTraces:
    def test_discard_leaves_no_use(self, op: Any) -> None:
        x = typed("x")
        op.Add(op.Relu(x), x)
        assert len(x.uses()) == 2
        op.discard()
        assert not x.uses()
        assert (op.nodes, op.initializers, op.opsets) == ([], [], {})

    def test_keep_only_drops_the_rest(self, op: Any) -> None:
        x = typed("x")
        op.Exp(op.Neg(x))
        wanted = op.Add(op.Relu(x), 1.0)
        op.initializer(np.zeros(3))
        op.keep_only([wanted])
        assert [node.op_type for node in op.nodes] == ["Relu", "Add"]
        assert len(op.initializers) == 1
        assert [user.op_type for user in x.consumers()] == ["Relu"]

    def test_keep_only_keeps_an_initializer_that_is_the_result(self, op: Any) -> None:
        result = op.initializer(np.zeros(3))
        op.keep_only([result])
        assert op.initializers == [result]

    def test_private_names_are_no_operators(self, op: Any) -> None:
        with pytest.raises(AttributeError):
            op._hidden(typed("x"))


@pytest.mark.parametrize("dtype", ["float", "float16", "double", "bfloat16", "int64", "uint8"])
def test_the_checker_accepts_promoted_numbers(dtype: str) -> None:
    model = parse(f"g ({dtype}[2] x) => ({dtype}[2] y) {{ y = Identity(x) }}")
    assert rewrite(model, [rule(lambda op, x: op.Identity(x), lambda op, x: op.Where(True, op.Max(x, 0), [0, 1]))]) == 1
    assert_valid(model)
    assert {item.dtype for item in model.graph.initializers.values()} == {ir.DataType.BOOL, model.graph.inputs[0].dtype}
