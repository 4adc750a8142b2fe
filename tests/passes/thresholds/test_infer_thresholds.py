"""Thresholds agree with the tail that they stand for, on every integer of the base or on the floats around them."""

from __future__ import annotations

import importlib
import math

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.check.blame.diagnosis import first_divergence
from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of, set_datatype
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.thresholds.infer_thresholds import InferThresholds
from onnx_passes.verify.run.execute import Executor
from tests.passes.thresholds.tools import (
    QUANT,
    check_integers,
    grid,
    make,
    neighbours,
    quantized,
    results,
    thresholds,
)
from tests.passes.tools import apply, model_of, notes_of, operators

ROUNDING = ["ROUND", "HALF_EVEN", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"]
SCALES = np.array([0.25, 0.3, 1.5, 0.0625], np.float32)
BIASES = np.array([0.5, -1.25, 3.3, 0], np.float32)
NORM = {"gamma": [0.5, -0.75, 0, 1e-3], "beta": [1, 0.5, 2.4, -1], "mean": [3, -2, 0.1, 0], "var": [4, 0.5, 1, 2]}

MONOTONE = {
    "affine": ("a = Mul(q, s) t = Add(a, b)", {"s": SCALES, "b": BIASES}),
    "ties": ("t = Mul(q, s)", {"s": 0.5}),
    "divided": ("a = Div(q, s) t = Sub(a, b)", {"s": SCALES, "b": BIASES}),
    "subtracted": ("t = Sub(b, q)", {"b": BIASES}),
    "norm": ("t = BatchNormalization(q, gamma, beta, mean, var)", NORM),
    "relu": ("a = Mul(q, s) c = Relu(a) t = Add(c, b)", {"s": 0.37, "b": BIASES}),
    "leaky": ("a = Mul(q, s) t = LeakyRelu <alpha: float = 0.125> (a)", {"s": 0.5}),
    "prelu": ("t = PRelu(q, s)", {"s": SCALES}),
    "clip": ("a = Mul(q, s) t = Clip(a, low, high)", {"s": 0.5, "low": -1.25, "high": 2.5}),
    "neg": ("a = Neg(q) t = Mul(a, s)", {"s": SCALES}),
    "max": ("a = Mul(q, s) c = Max(a, b) t = Min(c, d)", {"s": 0.25, "b": BIASES, "d": 2.5}),
}
APPROXIMATED = {
    "sigmoid": ("a = Mul(q, s) c = Sigmoid(a) t = Mul(c, m)", {"s": SCALES, "m": 7}),
    "tanh": ("a = Mul(q, s) c = Tanh(a) t = Mul(c, m)", {"s": SCALES, "m": 4}),
    "selu": ("a = Mul(q, s) t = Selu(a)", {"s": SCALES}),
    "elu": ("a = Mul(q, s) c = Elu <alpha: float = 1.5> (a) t = Mul(c, m)", {"s": SCALES, "m": 2}),
    "softplus": ("a = Mul(q, s) t = Softplus(a)", {"s": SCALES}),
    "hard sigmoid": ("c = HardSigmoid <alpha: float = 0.1> (q) t = Mul(c, m)", {"m": 5}),
}
UP_AND_DOWN = {
    "gelu": ("a = Mul(q, s) c = Gelu(a) t = Mul(c, m)", {"s": SCALES, "m": 4}),
    "hard swish": ("a = Mul(q, s) c = HardSwish(a) t = Mul(c, m)", {"s": SCALES, "m": 3}),
    "mish": ("a = Mul(q, s) c = Mish(a) t = Mul(c, m)", {"s": SCALES, "m": 3}),
    "silu": ("a = Mul(q, s) g = Sigmoid(a) c = Mul(a, g) t = Mul(c, m)", {"s": SCALES, "m": 4}),
    "falling leaky relu": ("a = Mul(q, s) t = LeakyRelu <alpha: float = -0.5> (a)", {"s": 0.5}),
    "falling prelu": ("t = PRelu(q, s)", {"s": [-0.5, 0.5, 0, -1]}),
    "falling elu": ("a = Mul(q, s) t = Elu <alpha: float = -2.0> (a)", {"s": 0.25}),
    "falling selu": ("a = Mul(q, s) t = Selu <alpha: float = -2.0> (a)", {"s": 0.25}),
    "thresholded": ("a = Mul(q, s) t = ThresholdedRelu <alpha: float = -2.0> (a)", {"s": 0.25}),
    "abs": ("a = Abs(q) t = Mul(a, s)", {"s": 0.25}),
    "square": ("a = Mul(q, q) t = Mul(a, s)", {"s": 0.0625}),
    "sine": ("a = Sin(q) t = Mul(a, s)", {"s": 3}),
    "two ways": ("a = Relu(q) n = Neg(q) d = Relu(n) c = Add(a, d) t = Mul(c, s)", {"s": SCALES}),
    "reciprocal": ("a = Add(q, h) c = Reciprocal(a) t = Mul(c, s)", {"h": 0.5, "s": 3}),
}
TAILS = {**MONOTONE, **APPROXIMATED, **UP_AND_DOWN}


def weights_of(model: ir.Model, operator: str) -> np.ndarray:
    node = next(node for node in model.graph if node.op_type == operator)
    array = constant(node.inputs[1])
    assert array is not None
    return array


def reasons(model: ir.Model) -> list[str]:
    """Return why quantizers stay."""
    return [note.split(" stays: ")[1] for note in notes_of(InferThresholds(semantics="float"), model)]


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("signed", [0, 1])
def test_equal_on_every_integer(name: str, signed: int):
    tail, constants = TAILS[name]
    model = check_integers(InferThresholds(semantics="float"), quantized(tail, constants, signed=signed), -32, 31, 4)
    assert operators(model.graph) == ["MultiThreshold"]


@pytest.mark.parametrize("rounding", ROUNDING)
@pytest.mark.parametrize("scale", [0.5, -0.25, 0.1])
def test_equal_for_every_way_of_rounding(rounding: str, scale: float):
    model = quantized("a = Mul(q, s) t = Add(a, b)", {"s": scale, "b": [0.5, 0.25, -0.1, 0]}, rounding=rounding)
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize(("signed", "narrow"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_equal_for_every_width(bits: int, signed: int, narrow: int):
    model = quantized("t = Mul(q, s)", {"s": [0.5, 1.5, -0.75, 30]}, bits=bits, signed=signed, narrow=narrow)
    if (bits, signed, narrow) == (1, 0, 1):
        assert reasons(model) == ["it has a single level"]
        return
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
    levels = 1 if (bits, signed) == (1, 1) else 2**bits - 1 - narrow
    assert thresholds(model).shape[-1] in (levels, levels + 1)


@pytest.mark.parametrize("datatype", ["INT6", "INT2", "BIPOLAR", "TERNARY"])
def test_bipolar_quantizers(datatype: str):
    text = "a = Add(q, b) y = qonnx.custom_op.general.BipolarQuant (a, one)"
    model = make(text, {"one": 1, "b": [0, 1, -3, 0.5]}, datatype=datatype)
    check_integers(InferThresholds(semantics="float"), model, -1, 1, 4)


def test_bipolar_quantizer_of_minus_one_and_zero_is_no_identity():
    model = make("y = qonnx.custom_op.general.BipolarQuant (q, one)", {"one": 1}, datatype="INT1")
    q = np.array([[-1, 0, -1, 0]], np.float32)
    apply(InferThresholds(semantics="float"), model)
    np.testing.assert_array_equal(results(model, q), [[-1, 1, -1, 1]])


def test_truncation_of_bits():
    quantizer = (
        'y = qonnx.custom_op.general.Trunc <rounding_mode: string = "FLOOR", signed: int = 1, narrow: int = 0>'
        " (q, one, zero, bits, one, few)"
    )
    model = make(quantizer, {"one": 1, "zero": 0, "bits": 6, "few": 4})
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        ((4,), (4,)),
        ((5, 4), (4,)),
        ((5, 4), (1, 4)),
        ((2, 3, 5), (3, 1)),
        ((2, 3, 5), (1, 5)),
        ((2, 3, 5), (3, 5)),
        ((2, 3, 2, 5), (3, 1, 1)),
        ((2, 3, 2, 5), (5,)),
        ((2, 3, 2, 5), (1, 2, 5)),
        ((2, 3, 2, 5), (2, 1, 1, 5)),
        ((1, 3, 2, 2, 2), (3, 1, 1, 1)),
        ((1, 3, 2, 2, 2), ()),
    ],
    ids=str,
)
def test_parameters_along_any_axes(shape: tuple[int, ...], parameters: tuple[int, ...]):
    amount = math.prod(parameters)
    signs = np.where(np.arange(amount) % 3 == 1, -1, 1)
    scale = (signs * (0.1 + 0.15 * np.arange(amount))).reshape(parameters)
    model = quantized("t = Mul(q, s)", {"s": scale}, shape=",".join(map(str, shape)), result=",".join(map(str, shape)))
    points = [np.full(shape, number, np.float32) for number in range(-32, 32)]
    expected = [results(model, q) for q in points]
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["MultiThreshold"]
    for q, wanted in zip(points, expected, strict=True):
        np.testing.assert_array_equal(results(model, q), wanted)


@pytest.mark.parametrize("name", [*MONOTONE, *APPROXIMATED])
def test_equal_on_floats_around_each_threshold(name: str):
    tail, constants = TAILS[name]
    model = quantized(tail, constants, datatype=None)
    before = model.clone()
    assert apply(InferThresholds(semantics="float"), model)
    if name in MONOTONE:
        assert operators(model.graph) == ["MultiThreshold"]
    q = np.repeat(np.append(neighbours(thresholds(model)), [0, 1, -1, 0.5, 1e9, -1e9, 1e-30])[:, None], 4, axis=1)
    np.testing.assert_array_equal(results(model, q), results(before, q))


@pytest.mark.parametrize("name", ["gelu", "silu", "abs"])
def test_what_goes_up_and_down_on_floats_stays_before_the_thresholds(name: str):
    tail, constants = UP_AND_DOWN[name]
    model = quantized(tail, constants, datatype=None)
    q = np.repeat(np.linspace(-20, 20, 1001, dtype=np.float32)[:, None], 4, axis=1)
    expected = results(model, q)
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph)[-1] == "MultiThreshold"
    assert len(operators(model.graph)) > 1
    np.testing.assert_array_equal(results(model, q), expected)


WEIGHTS = np.arange(-6, 6).reshape(3, 4)


def flippable(more: str = "", result: str = "") -> ir.Model:
    """Make a model of integer weights and a scale that is negative for some channels."""
    return quantized(
        f"c = MatMul(q, w) a = Mul(c, s) t = Add(a, b) {more}",
        {"w": WEIGHTS, "s": [0.25, -0.1, -0.3, 0.5], "b": BIASES},
        shape="N,3",
        result="N,4",
        datatype="INT3",
    )


def all_inputs(low: int, high: int, width: int) -> np.ndarray:
    axes = np.meshgrid(*[np.arange(low, high + 1)] * width)
    return np.stack([axis.reshape(-1) for axis in axes], axis=1).astype(np.float32)


def test_falling_channels_are_turned_around_in_the_weights():
    model = flippable()
    q = all_inputs(-4, 3, 3)
    expected = results(model, q)
    assert apply(InferThresholds(semantics="float"), model)
    assert [(node.domain, node.op_type) for node in model.graph] == [
        ("", "MatMul"),
        ("qonnx.custom_op.general", "MultiThreshold"),
    ]
    np.testing.assert_array_equal(weights_of(model, "MatMul"), WEIGHTS * [1, -1, -1, 1])
    np.testing.assert_array_equal(results(model, q), expected)


def test_what_is_turned_around_is_not_accused_of_differing():
    before, after = flippable(), flippable()
    apply(InferThresholds(semantics="float"), after)
    # A sign of zero differs behind the thresholds, as promised; nothing before them is accused.
    found = first_divergence(before, after, {"q": all_inputs(-4, 3, 3)}, Executor(), "onnxruntime")
    assert found.startswith("y[")
    assert "signed zeros" in found


def test_turned_weights_keep_a_data_type_that_holds_them():
    model = flippable()
    weights = model.graph.initializers["w"]
    set_datatype(weights, "INT4")
    accumulator = next(iter(model.graph)).outputs[0]
    set_datatype(accumulator, "INT7")
    apply(InferThresholds(semantics="float"), model)
    flipped = next(iter(model.graph)).inputs[1]
    assert flipped is not None
    assert str(datatype_of(flipped)) == "INT4"
    held, known = weights_of(model, "MatMul"), datatype_of(accumulator)
    assert known is not None
    sums = all_inputs(-4, 3, 3) @ held
    assert known.min <= sums.min()
    assert sums.max() <= known.max


@pytest.mark.parametrize("use", ["c", "a"])
def test_channels_are_not_turned_around_that_others_see(use: str):
    quant = f'y = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (a, one, zero, bits)'
    model = make(
        f"c = MatMul(q, w) a = Mul(c, s) {quant} z = Relu({use}) w2 = Add(z, y)",
        {"w": WEIGHTS, "s": [0.25, -0.1, -0.3, 0.5], "one": 1, "zero": 0, "bits": 3},
        shape="N,3",
        result="N,4",
        datatype="INT3",
    )
    model.graph.outputs.append(next(node for node in model.graph if node.op_type == "Relu").outputs[0])
    q = all_inputs(-4, 3, 3)
    executor_results = [results(model, q)]
    other = str(model.graph.outputs[1].name)
    from onnx_passes.verify.run.execute import Executor

    expected = Executor().prepare(model, engine="onnxruntime").run({"q": q})[other]
    assert apply(InferThresholds(semantics="float"), model)
    found = Executor().prepare(model, engine="onnxruntime").run({"q": q})
    np.testing.assert_array_equal(found["y"], executor_results[0])
    np.testing.assert_array_equal(found[other], expected)
    np.testing.assert_array_equal(weights_of(model, "MatMul"), WEIGHTS)


@pytest.mark.parametrize(
    ("node", "weights", "bias"),
    [
        ("Conv <kernel_shape = [2, 2]>", (4, 3, 2, 2), 4),
        ("Conv <kernel_shape = [2, 2], group = 3>", (3, 1, 2, 2), 3),
        ("ConvTranspose <kernel_shape = [2, 2]>", (3, 4, 2, 2), 4),
        ("ConvTranspose <kernel_shape = [2, 2], group = 3>", (3, 2, 2, 2), 6),
    ],
)
def test_falling_channels_of_convolutions(node: str, weights: tuple[int, ...], bias: int):
    size = 4 if node.startswith("ConvT") else 2
    generator = np.random.default_rng(0)
    model = quantized(
        f"c = {node} (q, w, b) t = BatchNormalization(c, gamma, beta, mean, var)",
        {
            "w": generator.integers(-3, 4, weights),
            "b": generator.integers(-9, 9, bias),
            "gamma": np.linspace(-0.1, 0.1, bias),
            **{name: np.full(bias, number) for name, number in {"beta": 0.3, "mean": 2, "var": 4}.items()},
        },
        shape="N,3,3,3",
        result=f"N,{bias},{size},{size}",
        datatype="INT4",
    )
    q = generator.integers(-8, 8, (50, 3, 3, 3)).astype(np.float32)
    expected = results(model, q)
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph)[1:] == ["MultiThreshold"]
    np.testing.assert_array_equal(results(model, q), expected)


def test_thresholds_that_all_channels_share_are_written_once():
    model = quantized("t = Mul(q, s)", {"s": [0.5, 0.5, 0.5, 0.5]})
    apply(InferThresholds(semantics="float"), model)
    assert thresholds(model).shape == (1, 7)


def test_levels_out_of_reach_have_thresholds_beyond_the_range():
    model = quantized("t = Mul(q, s)", {"s": 0.0625}, bits=4)
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
    assert thresholds(model).shape == (1, 15)
    assert thresholds(model).max() == 32
    assert thresholds(model).min() == -32


def test_a_step_over_several_levels_repeats_thresholds():
    model = quantized("t = Mul(q, s)", {"s": 4})
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
    np.testing.assert_array_equal(thresholds(model), [[0, 0, 0, 0, 1, 1, 1]])


def test_identity_goes():
    model = quantized("t = Relu(q)", bits=4, signed=0, datatype="UINT3")
    check_integers(InferThresholds(semantics="float"), model, 0, 7, 4)
    assert operators(model.graph) == ["Identity"]


def test_part_of_a_tail_is_taken_where_the_whole_is_refused():
    model = quantized("a = Mul(q, s) c = Sin(a) t = Mul(c, m)", {"s": 0.5, "m": 3}, datatype=None)
    q = np.repeat(np.linspace(-9, 9, 333, dtype=np.float32)[:, None], 4, axis=1)
    expected = results(model, q)
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["Mul", "Sin", "MultiThreshold"]
    np.testing.assert_array_equal(results(model, q), expected)


def test_what_others_use_stays():
    model = quantized("a = Mul(q, s) t = Relu(a)", {"s": 0.5})
    model.graph.outputs.append(next(iter(model.graph)).outputs[0])
    assert apply(InferThresholds(semantics="float"), model)
    assert sorted(operators(model.graph)) == ["Mul", "MultiThreshold"]


def test_quantizer_of_a_quantizer_becomes_one_node():
    inner = f'c = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "FLOOR"> (a, one, zero, four)'
    model = quantized(f"a = Mul(q, s) {inner} t = Mul(c, h)", {"s": SCALES, "four": 4, "h": 0.5})
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
    assert operators(model.graph) == ["MultiThreshold"]


def test_normalization_in_training_is_no_tail():
    tail = "t = BatchNormalization <training_mode = 1> (q, gamma, beta, mean, var)"
    model = quantized(tail, NORM)
    before = [node.op_type for node in model.graph]
    InferThresholds(semantics="float")(model)
    assert operators(model.graph)[0] == before[0] == "BatchNormalization"


@pytest.mark.parametrize(
    ("constants", "reason"),
    [
        ({"bits": 9}, "its 512 levels are more than 8 bits"),
        ({"one": 2}, "its scale is not 1, or its zero point not 0"),
        ({"zero": 1}, "its scale is not 1, or its zero point not 0"),
        ({"bits": [2, 3, 3, 2]}, "its bit width is not the same everywhere"),
        ({"bits": 2.5}, "its bit width is no whole number"),
        ({"bits": 0}, "its bit width is no whole number"),
    ],
)
def test_refuses_with_a_reason(constants: dict[str, object], reason: str):
    assert reasons(quantized("t = Identity(q)", constants)) == [reason]


def test_refuses_a_computed_scale():
    quant = f'y = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (q, s, zero, bits)'
    assert reasons(make(f"s = Abs(q) {quant}", {"zero": 0, "bits": 3})) == ["a parameter is computed"]


def test_refuses_a_function_for_every_element():
    model = quantized("t = Mul(q, s)", {"s": 1 + np.arange(12).reshape(3, 4)}, shape="3,4")
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["Mul", "MultiThreshold"]


def test_integers_that_floats_cannot_hold_are_taken_for_any_floats():
    model = quantized("t = Mul(q, s)", {"s": [0.5, 1e-8, -3e-9, 0.3]}, datatype="INT32")
    before = model.clone()
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["MultiThreshold"]
    points = np.append(neighbours(thresholds(model)), [2.0**30, -(2.0**31), 2**24 + 2])
    q = np.repeat(points[:, None], 4, axis=1)
    np.testing.assert_array_equal(results(model, q), results(before, q))


def test_refuses_an_unknown_shape():
    model = quantized("t = Mul(q, s)", {"s": 0.5})
    for node in model.graph:
        node.outputs[0].shape = None
    assert reasons(model) == ["its shape is not known"]


def test_refuses_what_is_no_number():
    model = quantized("a = Log(q) t = Mul(a, s)", {"s": 0.5})
    q = grid(1, 31, 4)
    expected = results(model, q)
    InferThresholds(semantics="float").run(model, Context())
    assert operators(model.graph)[0] == "Log"
    np.testing.assert_array_equal(results(model, q), expected)


def test_wider_quantizers_by_option():
    model = quantized("t = Mul(q, s)", {"s": [0.5, 2.5, 20, 1.5]}, bits=10)
    check_integers(InferThresholds(max_bits=10, semantics="float"), model, -32, 31, 4)
    assert thresholds(model).shape == (4, 1023)


SCALE = st.one_of(st.sampled_from([0.5, 0.25, -0.5, 1.0, 0.0, 2.0, -1.0]), st.floats(-3, 3, width=32))
STEP = st.one_of(
    st.tuples(st.sampled_from(["Mul", "Add", "Sub", "Max", "Min"]), SCALE),
    st.tuples(
        st.sampled_from(["Relu", "Neg", "Abs", "Floor", "Ceil", "Round", "Tanh", "Sigmoid", "Softsign"]), st.none()
    ),
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(STEP, min_size=1, max_size=5), st.sampled_from(ROUNDING), st.integers(1, 5), st.booleans(), st.booleans()
)
def test_random_tails(steps: list[tuple[str, float | None]], rounding: str, bits: int, signed: bool, narrow: bool):
    body, constants, last = "", {}, "q"
    for number, (operator, parameter) in enumerate(steps):
        name = "t" if number == len(steps) - 1 else f"v{number}"
        if parameter is not None:
            constants[f"c{number}"] = parameter
        second = "" if parameter is None else f", c{number}"
        body += f"{name} = {operator}({last}{second}) "
        last = name
    model = quantized(body, constants, bits=bits, signed=int(signed), narrow=int(narrow), rounding=rounding)
    q = grid(-32, 31, 4)
    expected = results(model, q)
    InferThresholds(semantics="float")(model)
    np.testing.assert_array_equal(results(model, q), expected)


def test_what_is_only_near_integers_is_no_base():
    tail = "d = Div(q, k) c = MatMul(d, w) t = Mul(c, k)"
    model = quantized(tail, {"k": 3, "w": [[1, 2], [3, -1], [1, 1], [2, 5]]}, result="N,2", rounding="FLOOR", bits=6)
    q = np.random.default_rng(0).integers(-32, 32, (2000, 4)).astype(np.float32)
    expected = results(model, q)
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["Div", "MatMul", "MultiThreshold"]
    np.testing.assert_array_equal(results(model, q), expected)


@pytest.mark.parametrize(("bits", "left"), [(3, ["MatMul", "MultiThreshold"]), (4, ["MatMul"])])
def test_turned_around_is_identity_only_where_all_turned_integers_are_levels(bits: int, left: list[str]):
    model = quantized("c = MatMul(q, w) t = Neg(c)", {"w": [[1]]}, bits=bits, shape="N,1", datatype="INT3")
    check_integers(InferThresholds(semantics="float"), model, -4, 3, 1)
    assert operators(model.graph) == left


@pytest.mark.parametrize("inner", [3, 5])
def test_what_was_turned_around_is_known_to_the_next_quantizer(inner: int):
    first = f'b = {QUANT} <signed: int = 1, narrow: int = 0, rounding_mode: string = "ROUND"> (a, one, zero, inner)'
    tail = f"c = MatMul(q, w) n = Neg(c) a = Add(n, k) {first} t = Sub(b, k)"
    model = quantized(tail, {"w": [[3]], "k": 4, "inner": inner}, bits=5, shape="N,1", datatype="INT3")
    check_integers(InferThresholds(semantics="float"), model, -4, 3, 1)


def test_a_dimension_may_be_called_otherwise_behind_a_quantizer():
    model = model_of(
        """
        g (float[N, 4] x) => (float[M, 2] y) <float[4, 2] w = {1, 2, -1, 3, 0, 1, 2, -2}, float half = {0.5},
                                                 float one = {1}, float zero = {0}, float bits = {3}> {
            q = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (x, one, zero, bits)
            a = MatMul (q, w)
            s = Mul (a, half)
            y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (s, one, zero, bits)
        }
        """,
        domains='"qonnx.custom_op.general": 1',
    )
    apply(ShapeInference(), model)
    apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["MultiThreshold", "MatMul", "MultiThreshold"]


def test_a_clip_behind_a_quantizer_counts_as_part_of_it():
    model = model_of(
        """
        g (float[2, 4] x) => (float[2, 4] y) <float low = {-33}, float high = {222}, float one = {1},
                                                 float zero = {-0.0}, float bits = {9}> {
            q = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (x, one, zero, bits)
            y = Clip (q, low, high)
        }
        """,
        domains='"qonnx.custom_op.general": 1',
    )
    apply(ShapeInference(), model)
    apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["MultiThreshold"]


@pytest.mark.parametrize(("axis", "layout"), [(1, "NCDHW"), (4, "NDHWC")])
def test_channels_of_volumes_are_written_as_qonnx_reads_them(axis: int, layout: str):
    pytest.importorskip("qonnx")
    counted = importlib.import_module("qonnx.custom_op.general.multithreshold").multithreshold
    shape = [4 if place == axis else 1 for place in range(5)]
    sizes = [4 if place == axis else 2 for place in range(5)]
    constants = {"s": SCALES.reshape(shape), "b": BIASES.reshape(shape)}
    model = quantized("a = Mul(q, s) t = Add(a, b)", constants, shape=",".join(map(str, sizes)))
    before = model.clone()
    assert apply(InferThresholds(semantics="float"), model)
    (node,) = model.graph
    assert (node.domain, node.attributes.get_string("data_layout")) == ("qonnx.custom_op.general", layout)
    bias = node.attributes.get_float("out_bias", 0.0)
    q = np.random.default_rng(0).integers(-32, 32, sizes).astype(np.float32)
    expected = results(before, q)
    np.testing.assert_array_equal(counted(q, thresholds(model), 1.0, bias, channels_last=axis == 4), expected)
    np.testing.assert_array_equal(results(model, q), expected)
