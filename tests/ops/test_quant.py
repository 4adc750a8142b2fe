"""Quant; the expected numbers in the tables are those of QONNX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.quant import Quant
from onnx_passes.ops.rounding import MODES
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.verify.run.execute import Executor
from tests.ops.tools import assert_computes, assert_same, one_node, results

NAN, INF = np.nan, np.inf
OPSETS = (9, 11, 13, 18, 23)
SPECIAL = np.array([NAN, INF, -INF, -0.0, -0.2, 0.2, -1e-45], np.float32)


def f32(*numbers: Any) -> np.ndarray:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    ("signed", "narrow", "bits", "expected"),
    [
        (1, 0, 3, [NAN, 1.5, -2, 0, -0.0, 0, -0.0]),
        (1, 1, 3, [NAN, 1.5, -1.5, 0, -0.0, 0, -0.0]),
        (0, 0, 3, [NAN, 3.5, 0, 0, 0, 0, 0]),
        (0, 1, 3, [NAN, 3.0, 0, 0, 0, 0, 0]),
        (1, 0, 1, [-0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5]),
        (1, 1, 1, [-0.5, 0.5, -0.5, 0.5, -0.5, 0.5, -0.5]),
        (0, 0, 1, [NAN, 0.5, 0, 0, 0, 0, 0]),
        (0, 1, 1, [NAN, 0, 0, 0, 0, 0, 0]),
        (1, 0, 2.5, [NAN, 1.0, -1.5, 0, -0.0, 0, -0.0]),
        (0, 0, 2.5, [NAN, 2.5, 0, 0, 0, 0, 0]),
        (1, 1, 2.5, [NAN, 1.0, -1.0, 0, -0.0, 0, -0.0]),
        (0, 1, 2.5, [NAN, 2.0, 0, 0, 0, 0, 0]),
    ],
)
@pytest.mark.parametrize("fed", [False, True])
def test_range_and_special_values(
    signed: int, narrow: int, bits: float, expected: list[float], opset: int, *, fed: bool
):
    parameters = (f32(0.5), f32(0), f32(bits))
    model = one_node(Quant, SPECIAL, *parameters, opset=opset, fed=fed, signed=signed, narrow=narrow)
    assert_computes(model, SPECIAL, f32(expected))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    ("x", "parameters", "signed", "expected"),
    [
        ([0, 0.25, 0.5, 1], (1, 0.5, 4), 1, [-0.5, 0.5, 0.5, 1.5]),
        (SPECIAL, (-0.5, 3, 4), 0, [NAN, 1.5, -6, -0.0, -0.0, -0.0, -0.0]),
        (SPECIAL, (0.5, -0.0, 4), 0, [NAN, 7.5, 0, 0, 0, 0, 0]),
    ],
)
def test_zero_points(x: Any, parameters: tuple[float, ...], signed: int, expected: list[float], opset: int):
    values = f32(x)
    model = one_node(Quant, values, *map(f32, parameters), signed=signed, opset=opset)
    assert_computes(model, values, f32(expected))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
def test_each_channel_has_its_own_bits_and_one_bit_is_a_sign(opset: int, *, fed: bool):
    x = np.tile(f32(-9, -0.5, -0.0, 0.4, 9), (2, 3, 1))
    bits = f32([[1], [2], [8]])
    model = one_node(Quant, x, f32(0.5), f32(0), bits, opset=opset, fed=fed)
    rows = [[-0.5, -0.5, 0.5, 0.5, 0.5], [-1.0, -0.5, 0.0, 0.5, 0.5], [-9.0, -0.5, 0.0, 0.5, 9.0]]
    assert_computes(model, x, np.tile(f32(rows), (2, 1, 1)))


@pytest.mark.parametrize("bits", [24, 25, 31, 32, 64])
@pytest.mark.parametrize("signed", [0, 1])
def test_large_ranges_end_at_the_nearest_float(bits: int, signed: int):
    x = f32(1e30, -1e30, 3.0)
    top = f32(2.0 ** (bits - signed) - 1)
    expected = f32(top, -(2.0 ** (bits - 1)) if signed else 0, 3)
    assert_computes(one_node(Quant, x, f32(1), f32(0), f32(bits), signed=signed), x, expected)


@pytest.mark.parametrize("bits", [0.0, 0.5])
@pytest.mark.parametrize("signed", [0, 1])
def test_in_a_range_upside_down_the_lower_end_wins(bits: float, signed: int):
    x = f32(-3, 0, 3)
    model = one_node(Quant, x, f32(1), f32(0), f32(bits), signed=signed, narrow=1)
    low = 1 - 2.0 ** (bits - 1) if signed else 0
    assert_computes(model, x, np.full(3, np.rint(low), np.float32))


def test_integers_as_zero_point_and_bits():
    x = f32(-3.3, 0.2, 99)
    for fed in (False, True):
        model = one_node(Quant, x, f32(0.5), np.int64(3), np.int64(4), fed=fed)
        assert_computes(model, x, f32(-3.5, 0, 2))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("mode", ["ROUND", "HALF_UP", "DOWN"])
def test_doubles_are_computed_as_such(opset: int, mode: str, *, fed: bool):
    x = np.array([0.3, 1 / 3, -2.5, NAN, INF, -0.0, 1e300])
    scale, zero, bits = np.array(0.1), np.array(0.0), np.array(8.0)
    model = one_node(Quant, x, scale, zero, bits, opset=opset, fed=fed, rounding_mode=mode)
    # In float32 the first quotient would be three.
    first = 2 if mode == "DOWN" else 3
    assert_computes(model, x, np.array([first, 3, -25, NAN, 127, 0, 127]) * 0.1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("opset", [13, 18, 23])
def test_half_precision_is_computed_in_single_and_rounded_once(dtype: Any, opset: int):
    x = f32(0.3, 1 / 3, -2.5, 40, -0.0, INF).astype(dtype)
    scale, zero, bits = (f32(number).astype(dtype) for number in (0.1, 0.0, 8))
    expected = np.clip(np.rint(x.astype(np.float32) / scale.astype(np.float32)), -128, 127) * scale.astype(np.float32)
    expected = (expected + f32(0)).astype(dtype)
    model = one_node(Quant, x, scale, zero, bits, opset=opset)
    for way, array in results(model, x).items():
        assert_same(array.astype(np.float32), expected.astype(np.float32), way)


def test_integers_give_floats():
    x = np.array([-3, 0, 99], np.int32)
    assert_computes(one_node(Quant, x, f32(2), f32(0), f32(4)), x, f32(-4, 0, 14))


def test_attributes_may_be_left_out():
    x = f32(-9, 0.5, 9)
    assert_computes(one_node(Quant, x, f32(1), f32(0), f32(3)), x, f32(-4, 0, 3))


def test_unknown_types_are_taken_for_float32():
    x = f32(-9, 0.5, 9)
    model = one_node(Quant, x, f32(1), f32(0), f32(3))
    node = model.graph[0]
    computed = ir.node("Identity", [model.graph.inputs[0]])
    computed.outputs[0].name = "z"
    model.graph.insert_before(node, computed)
    node.replace_input_with(0, computed.outputs[0])
    assert node.inputs[0] is not None
    assert node.inputs[0].dtype is None
    assert_same(Executor().prepare(model, engine="onnxruntime").run({"x": x})["y"], f32(-4, 0, 3))


@pytest.mark.parametrize(("kind", "dtype"), [("float16", np.float16), ("double", np.float64), ("float", np.float32)])
def test_a_chain_of_values_without_types_runs_in_the_type_of_its_scales(kind: str, dtype: Any):
    def declared(name: str, number: float) -> str:
        # Text has half precision as bits.
        return f"{kind} {name} = {{{np.float16(number).view(np.int16) if dtype is np.float16 else number}}}"

    quant = "qonnx.custom_op.general.Quant <signed = 1, narrow = 0>"
    constants = {"s": 0.125, "t": 0.3, "zero": 0.0, "bits": 4.0}
    model = ir.from_onnx_text(
        f"""<ir_version: 8, opset_import: ["" : 17, "qonnx.custom_op.general" : 1]>
        g ({kind}[1,8] x) => ({kind}[1,8] y)
        <{", ".join(declared(*item) for item in constants.items())}> {{
          a = {quant} (x, s, zero, bits)
          b = Relu (a)
          y = {quant} (b, t, zero, bits)
        }}"""
    )
    x = np.linspace(-1, 1, 8).astype(dtype)[None, :]
    working = np.float64 if dtype is np.float64 else np.float32
    s, t = working(dtype(0.125)), working(dtype(0.3))
    first = (np.clip(np.rint(x.astype(working) / s), -8, 7) * s).astype(dtype)
    expected = (np.clip(np.rint(np.maximum(first, 0).astype(working) / t), -8, 7) * t).astype(dtype)
    found = Executor().prepare(model, engine="onnxruntime").run({"x": x})["y"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


def test_constant_parameters_make_few_nodes():
    def operators(*parameters: float, **attributes: Any) -> list[str]:
        model = one_node(Quant, f32(1), *map(f32, parameters), **attributes)
        expand_nodes(model)
        return [node.op_type for node in model.graph if node.op_type != "Constant"]

    assert operators(0.5, 0, 4) == ["Div", "Add", "Clip", "Round", "Mul"]
    assert operators(0.5, 3, 4, rounding_mode="FLOOR") == ["Div", "Add", "Clip", "Floor", "Sub", "Mul"]
    assert operators(0.5, 0, 1) == ["Div", "Add", "GreaterOrEqual", "Where", "Mul"]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"rounding_mode": "FLOR"}, "'rounding_mode' cannot be 'FLOR'; did you mean 'FLOOR'"),
        ({"signed": "yes"}, "'signed' has to be of kind int"),
    ],
)
def test_refuses_wrong_attributes(attributes: dict[str, Any], message: str):
    with pytest.raises(ModelError, match=message):
        expand_nodes(one_node(Quant, f32(1), f32(1), f32(0), f32(3), **attributes))


def test_refuses_missing_inputs():
    with pytest.raises(ModelError, match="Quant needs its input 'bitwidth'"):
        expand_nodes(one_node(Quant, f32(1), f32(1), f32(0)))


@pytest.mark.parametrize("name", ["Quant", "IntQuant"])
def test_is_found_by_its_names(name: str):
    assert isinstance(definition_of(ir.Node("onnx.brevitas", name, [])), Quant)


@pytest.mark.parametrize(
    ("dtype", "scale", "expected"),
    [(np.float32, (), "FLOAT[2,3]"), (np.int8, (3,), "FLOAT[2,3]"), (np.float64, (1, 1, 1, 1), "DOUBLE[1,1,2,3]")],
)
def test_infers_what_it_computes(dtype: Any, scale: tuple[int, ...], expected: str):
    x = np.ones((2, 3), dtype)
    model = one_node(Quant, x, np.ones(scale, np.float32), f32(0), f32(4))
    found = results(model, x)
    output = model.graph.outputs[0]
    output.type = output.shape = None
    ShapeInference()(model)
    assert output.dtype is not None
    assert f"{output.dtype.name}{output.shape}" == expected
    for array in found.values():
        assert f"{ir.DataType.from_numpy(array.dtype).name}{ir.Shape(array.shape)}" == expected


SIZES = st.sampled_from([(), (1,), (3,), (2, 3), (2, 3, 2, 1)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[np.ndarray], dict[str, Any]]:
    shape = draw(SIZES)
    channels = (shape[1], *(1,) * (len(shape) - 2)) if len(shape) > 1 else shape

    def parameter(elements: st.SearchStrategy[float]) -> np.ndarray:
        return draw(arrays.arrays(np.float32, draw(st.sampled_from([(), channels])), elements=elements))

    scale = parameter(st.sampled_from([1.0, 0.5, 2.0**-7, np.float32(0.1), np.float32(-0.3), 3.0]))
    zero = parameter(st.sampled_from([0.0, 0.0, 3.0, -1.25, -0.0]))
    bits = parameter(st.one_of(st.sampled_from([1.0, 2.0, 2.5, 8.0]), st.integers(1, 32).map(float)))
    steps = st.integers(-40, 40).map(lambda n: n / 4)
    x = draw(arrays.arrays(np.float32, shape, elements=st.one_of(steps, st.floats(width=32))))
    names = {"signed": st.integers(0, 1), "narrow": st.integers(0, 1), "rounding_mode": st.sampled_from(MODES)}
    return [x, scale, zero, bits], {name: draw(strategy) for name, strategy in names.items()}


@settings(max_examples=80, deadline=None)
@given(cases(), st.sampled_from(OPSETS), st.booleans())
def test_all_ways_agree(case: tuple[list[np.ndarray], dict[str, Any]], opset: int, fed: bool):
    (x, *parameters), attributes = case
    model = one_node(Quant, x, *parameters, opset=opset, fed=fed, **attributes)
    found = results(model, x)
    for way, array in found.items():
        assert_same(array, found["numpy"], way)
