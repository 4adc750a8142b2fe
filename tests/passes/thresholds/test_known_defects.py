"""What other tools get wrong about thresholds, and this one does not.

Names in front are those of the defects of FINN and QONNX; others were found in an earlier collection of passes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.thresholds.fuse_thresholds import FuseThresholds
from onnx_passes.passes.thresholds.infer_thresholds import InferThresholds
from onnx_passes.passes.thresholds.round_thresholds import RoundThresholds
from onnx_passes.verify.run.execute import Executor
from tests.passes.thresholds.tools import (
    DOMAINS,
    MT,
    QUANT,
    check_integers,
    constants_text,
    grid,
    make,
    neighbours,
    quantized,
    results,
    thresholds,
)
from tests.passes.tools import apply, model_of, operators

GENERATOR = np.random.default_rng(0)
ROWS = np.array([[-3, -1, 0, 2], [-2, 0, 1, 3], [0, 1, 2, 3], [-9, -5, 5, 9]], np.float32)


def check_random(pass_: object, model: ir.Model, *shape: int) -> None:
    """Apply a pass, which must change something and no result for random integers of six bits."""
    q = GENERATOR.integers(-32, 32, shape).astype(np.float32)
    expected = results(model, q)
    assert apply(pass_, model)  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(results(model, q), expected)


def streamlined(model: ir.Model) -> ir.Model:
    return onnx_passes.apply(model, "streamline-thresholds").model


def test_b5_a_scale_of_zero_does_not_divide_by_zero():
    """Elsewhere thresholds are divided by the scale: 0 / 0 is NaN, and is never reached."""
    model = make(f'a = Mul(q, s) y = {MT} <data_layout: string = "NC"> (a, T)', {"s": [0, 1, 0.5, 0], "T": ROWS})
    check_integers(FuseThresholds(), model, -32, 31, 4)
    assert not np.isnan(thresholds(model)).any()


def test_b6_a_scale_along_another_axis_is_not_taken_for_one_of_channels():
    """Elsewhere any vector of scales with as many elements as there are channels is divided into their thresholds."""
    scales = np.array([0.5, 1, 2, 4], np.float32)
    text = f'a = Mul(q, s) y = {MT} <data_layout: string = "NCHW"> (a, T)'
    model = make(text, {"s": scales, "T": ROWS}, shape="1,4,2,4")
    check_random(FuseThresholds(), model, 1, 4, 2, 4)


def test_b6b_a_scale_along_another_axis_of_other_size():
    """Elsewhere this ends with an error, as the scale does not fit the thresholds."""
    text = f'a = Mul(q, s) y = {MT} <data_layout: string = "NCHW"> (a, T)'
    model = make(text, {"s": [0.5, 1, 2, 4, 0.25], "T": ROWS}, shape="1,4,2,5")
    check_random(FuseThresholds(), model, 1, 4, 2, 5)


@pytest.mark.parametrize("height", [2, 4])
def test_b7_channels_are_where_the_layout_says(height: int):
    """Elsewhere the layout of the thresholds is ignored when a bias is subtracted from them."""
    text = f'a = Add(q, b) y = {MT} <data_layout: string = "NHWC"> (a, T)'
    model = make(text, {"b": [0.5, -3, 2, 7], "T": ROWS}, shape=f"1,{height},4,4")
    check_random(FuseThresholds(), model, 1, height, 4, 4)
    assert operators(model.graph) == ["MultiThreshold"]


def test_b25_thresholds_behind_a_concatenation_hold_for_all_its_inputs():
    """Elsewhere a concatenation has the data type of its first input, and thresholds are clipped to that."""
    rows = constants_text({"T": [[-100.5, -1.5, 0.5, 99.5]]})
    model = model_of(
        f"""g (float[1, 2] p, float[1, 2] q) => (float[1, 4] y) <{rows}>
        {{ a = Concat <axis = 1> (p, q) y = {MT} <data_layout: string = "NC"> (a, T) }}""",
        domains=DOMAINS,
    )
    for value, datatype in zip(model.graph.inputs, ("INT2", "INT8"), strict=True):
        set_datatype(value, datatype)
    ShapeInference()(model)
    p, q = GENERATOR.integers(-2, 2, (200, 1, 2)), np.append(grid(-128, 127, 1, 2), grid(-128, 127, 1, 2), axis=0)

    def run() -> list[np.ndarray]:
        ready = Executor().prepare(model, engine="onnxruntime")
        pairs = zip(p.astype(np.float32), q[100:300], strict=True)
        return [ready.run({"p": first, "q": second})["y"] for first, second in pairs]

    expected = run()
    assert apply(RoundThresholds(), model)
    np.testing.assert_array_equal(thresholds(model), [[-100, -1, 1, 100]])
    np.testing.assert_array_equal(run(), expected)


@pytest.mark.parametrize("scale", [0.5, 0.25, 2, 4])
@pytest.mark.parametrize("signed", [0, 1])
def test_b29_ties_round_to_even(scale: float, signed: int):
    """Elsewhere thresholds lie half a step below each level, which rounds ties up."""
    model = quantized("t = Identity(q)", {"one": scale}, bits=4, signed=signed)
    q = grid(-32, 31, 4)
    expected = results(model, q)
    np.testing.assert_array_equal(results(streamlined(model), q), expected)


@pytest.mark.parametrize("rounding", ["FLOOR", "CEIL", "DOWN", "UP", "HALF_UP", "HALF_DOWN"])
@pytest.mark.parametrize("activation", ["Identity", "Relu"])
def test_b30_the_way_of_rounding_counts(rounding: str, activation: str):
    """Elsewhere every quantizer gets the thresholds of rounding to the nearest."""
    model = quantized(f"t = {activation} (q)", {"one": [0.5, 0.3, 2, 3.7]}, bits=4, rounding=rounding)
    q = grid(-32, 31, 4)
    expected = results(model, q)
    found = streamlined(model)
    assert "Quant" not in operators(found.graph)
    np.testing.assert_array_equal(results(found, q), expected)


def test_b32_an_activation_that_others_use_stays_for_them():
    """Elsewhere the Relu goes with the quantizer, and its other user sees negative numbers."""
    quant = f'b = {QUANT} <signed: int = 0, narrow: int = 0, rounding_mode: string = "ROUND"> (a, one, zero, bits)'
    model = make(f"a = Relu(q) {quant} c = Mul(a, h) y = Add(b, c)", {"one": 1, "zero": 0, "bits": 2, "h": 0.125})
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
    assert "Relu" in operators(model.graph)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("width", [4, 5])
def test_b38_channels_of_three_axes(axis: int, width: int):
    """Elsewhere the axis of channels is guessed from the number of axes: an error, or wrong if both are equal."""
    size = 4 if axis == 1 else width
    scale = (0.25 * np.arange(1, size + 1)).reshape((size, 1) if axis == 1 else (size,))
    model = quantized("t = Identity(q)", {"one": scale}, shape=f"1,4,{width}")
    q = GENERATOR.integers(-32, 32, (1, 4, width)).astype(np.float32)
    expected = results(model, q)
    found = streamlined(model)
    assert "Quant" not in operators(found.graph)
    np.testing.assert_array_equal(results(found, q), expected)


@pytest.mark.parametrize("behind", [False, True])
def test_b40_b41_a_scalar_that_adds_an_axis_keeps_it(behind: bool):
    """Elsewhere a constant of one element counts as a scalar, and the axes that it adds are lost."""
    mt = f'{MT} <data_layout: string = "NC">'
    text = f"a = {mt} (q, T) y = Add(a, c)" if behind else f"a = Add(q, c) y = {MT} (a, T)"
    model = make(text, {"c": [[[2.0]]], "T": ROWS[:1]}, result="1,N,4")
    q = grid(-32, 31, 4)
    expected = results(model, q)
    apply(FuseThresholds(), model)
    found = results(model, q)
    assert found.shape == expected.shape == (1, 64, 4)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("datatype", ["INT6", None])
def test_ceil_is_reached_behind_an_integer_not_at_it(datatype: str | None):
    """Elsewhere Ceil(x) >= k is taken for x >= k - 1, which is off by one where x is the integer k - 1."""
    model = quantized("a = Mul(q, s) t = Ceil(a)", {"s": [0.5, 1, 2, 0.3]}, datatype=datatype)
    before = model.clone()
    assert apply(InferThresholds(semantics="float"), model)
    assert operators(model.graph) == ["MultiThreshold"]
    q = np.append(grid(-32, 31, 4), np.repeat(neighbours(thresholds(model))[:, None], 4, axis=1), axis=0)
    if datatype:
        q = grid(-32, 31, 4)
    np.testing.assert_array_equal(results(model, q), results(before, q))


@pytest.mark.parametrize("bias", [0.5, 1, 2, -1, 3])
def test_ties_stay_even_with_a_bias(bias: float):
    """Elsewhere the bias moves thresholds, and with it which neighbour of a tie is the even one."""
    model = quantized("a = Mul(q, s) t = Add(a, b)", {"s": [0.5, 0.25, 1.5, 2], "b": bias}, bits=4)
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)


@pytest.mark.parametrize("low", [-1.25, -0.5, 0.3, 0.5, 1.5])
def test_clip_with_a_minimum_that_is_no_integer(low: float):
    """Elsewhere the levels begin at the minimum of Clip, as if it were on the grid."""
    model = quantized("a = Mul(q, s) t = Clip(a, low, high)", {"s": 0.5, "low": low, "high": 2.5})
    check_integers(InferThresholds(semantics="float"), model, -32, 31, 4)
