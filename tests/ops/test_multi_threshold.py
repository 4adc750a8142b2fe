"""MultiThreshold: counts of thresholds, and sums of their weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.multi_threshold import MultiThreshold
from onnx_passes.ops.weighted_multi_threshold import WeightedMultiThreshold
from tests.ops.tools import assert_computes, one_node, results

INF, NAN = np.inf, np.nan
SPECIAL = np.array(
    [0.0, -0.0, INF, -INF, NAN, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 1, -1, 0.5, 2**24, 2**24 + 2, -(2**24)],
    np.float32,
)
KINDS = ("even", "whole", "special", "logarithmic", "crowded", "subnormal", "padded", "far")
OPSETS = (9, 11, 12, 13, 14, 18, 23)


def awkward_thresholds(rng: np.random.Generator, shape: tuple[int, ...], kind: str | None = None) -> np.ndarray:
    """Draw thresholds of all the kinds that need different care, sorted or not."""
    kind, amount = kind or str(rng.choice(KINDS)), shape[-1]
    with np.errstate(over="ignore"):
        drawn = {
            "even": lambda: np.linspace(-3, 3, amount) * rng.uniform(0.1, 10, (*shape[:-1], 1)),
            "whole": lambda: rng.integers(-200, 200, shape),
            "special": lambda: rng.choice(SPECIAL, shape),
            "logarithmic": lambda: np.exp(rng.uniform(-80, 80, shape)) * rng.choice([-1, 1], shape),
            "crowded": lambda: 1000 + rng.integers(0, 50, shape) * 2.0**-13,
            "subnormal": lambda: rng.integers(-300, 300, shape) * 1.4e-45,
            "padded": lambda: np.clip(rng.standard_normal(shape), -1, 1),
            "far": lambda: rng.choice([-3.4e38, 3.4e38, 2.0**24], shape) + rng.integers(0, 99, shape),
        }[kind]()
        thresholds = np.array(np.broadcast_to(drawn, shape), np.float32)
    if kind == "padded":
        thresholds = np.where(np.abs(thresholds) == 1, thresholds * INF, thresholds)
    return np.sort(thresholds, axis=-1) if rng.random() < 0.5 else thresholds


def near(rng: np.random.Generator, thresholds: np.ndarray, shape: Any) -> np.ndarray:
    """Draw values at thresholds, next to them, between them, and special ones."""
    choices = [
        rng.choice(thresholds.ravel(), shape),
        rng.choice(SPECIAL, shape),
        (rng.standard_normal(shape) * rng.choice([1, 10, 1e-44, 1e30])).astype(np.float32),
    ]
    x = np.choose(rng.choice(3, shape, p=[0.5, 0.3, 0.2]), choices).astype(np.float32)
    return np.choose(rng.choice(3, shape), [x, np.nextafter(x, np.float32(-INF)), np.nextafter(x, np.float32(INF))])


def ours(x: np.ndarray, thresholds: Any, weights: np.ndarray | None = None, **given: Any) -> ir.Model:
    model = one_node(WeightedMultiThreshold, x, thresholds, *([] if weights is None else [weights]), **given)
    typed = x if weights is None else weights
    model.graph.outputs[0].type = ir.TensorType(ir.DataType.from_numpy(typed.dtype))
    return model


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("opset", OPSETS)
def test_counts_what_is_reached(opset: int, fed: bool):
    x = np.array([[-INF, -1.5, -1, -0.0, 0.0, 2, 2.5, INF, NAN]], np.float32)
    thresholds = np.array([[2, -1, 0, -1, NAN]], np.float32)
    model = one_node(MultiThreshold, x, thresholds, opset=opset, fed=fed, out_dtype="UINT3")
    assert_computes(model, x, np.array([[0, 0, 2, 3, 3, 4, 4, 4, 0]], np.float32))


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("amount", [3, 40])
@pytest.mark.parametrize("opset", [9, 18])
def test_infinity_reaches_all_but_nan(opset: int, amount: int, fed: bool):
    x = np.array([-INF, NAN, 1, INF], np.float32)
    thresholds = np.array([[NAN, INF] + [-INF] * (amount - 2)], np.float32)
    expected = np.array([amount - 2, 0, amount - 2, amount - 1], np.float32)
    assert_computes(one_node(MultiThreshold, x, thresholds, opset=opset, fed=fed), x, expected)


@pytest.mark.parametrize(
    ("layout", "axis"),
    [("NCHW", 1), ("NHWC", 3), ("", 1), ("NCWH", 1), ("HCNW", 1), ("CNHW", 0), ("NHW", 1)],
)
def test_layout_tells_the_channels(layout: str, axis: int):
    x = np.full((3, 3, 3, 3), 0.5, np.float32)
    thresholds = np.array([[0, 1], [0, 0.5], [1, 1]], np.float32)
    shape = [1, 1, 1, 1]
    shape[axis] = 3
    expected = np.broadcast_to(np.array([1, 2, 0], np.float32).reshape(shape), x.shape)
    assert_computes(one_node(MultiThreshold, x, thresholds, data_layout=layout), x, expected)


@pytest.mark.parametrize(("axes", "axis"), [(2, 1), (3, 2), (4, 1), (5, 1)])
def test_guesses_the_layout_by_the_number_of_axes(axes: int, axis: int):
    x = np.full((2,) * axes, 0.5, np.float32)
    shape = [1] * axes
    shape[axis] = 2
    expected = np.broadcast_to(np.array([1, 0], np.float32).reshape(shape), x.shape)
    assert_computes(one_node(MultiThreshold, x, np.array([[0], [1]], np.float32)), x, expected)


def test_layout_with_more_axes_than_there_are_means_the_last_one():
    x = np.full((3, 2), 0.5, np.float32)
    model = one_node(MultiThreshold, x, np.array([[0], [1]], np.float32), data_layout="NHWC")
    assert_computes(model, x, np.array([[1, 0]] * 3, np.float32))


@pytest.mark.parametrize("amount", [2, 40])
def test_scales_and_shifts_the_count(amount: int):
    x = np.array([[-1, 0.5, 100]], np.float32)
    thresholds = np.arange(amount, dtype=np.float32)[None]
    model = one_node(MultiThreshold, x, thresholds, out_scale=-0.1, out_bias=0.3, out_dtype="FLOAT32")
    counts = np.array([[0, 1, amount]], np.float32)
    assert_computes(model, x, np.float32(-0.1) * counts + np.float32(0.3))


def test_negative_scale_of_nothing_is_a_positive_zero():
    x = np.array([[-1]], np.float32)
    assert_computes(one_node(MultiThreshold, x, np.float32([[0]]), out_scale=-1.0), x, np.array([[0]], np.float32))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 15, 16, 17, 32, 33, 63, 255, 300]), st.sampled_from(KINDS))
def test_all_ways_agree(seed: int, amount: int, kind: str):
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([1, 3]))
    thresholds = awkward_thresholds(rng, (channels, amount), kind)
    x = near(rng, thresholds, (2, 3, 4))
    attributes = {"out_scale": float(rng.choice([1, 2, -1, 0.1])), "out_bias": float(rng.choice([0, -1, 0.1]))}
    layout = str(rng.choice(["NCW", "NWC"])) if channels == 1 else "NCW"
    opset, fed = int(rng.choice(OPSETS)), bool(rng.random() < 0.3)
    model = one_node(MultiThreshold, x, thresholds, opset=opset, fed=fed, data_layout=layout, **attributes)
    assert_computes(model, x, results(model, x)["numpy"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 16, 17, 33, 63, 255]), st.sampled_from(KINDS))
def test_all_ways_agree_on_weights(seed: int, amount: int, kind: str):
    rng = np.random.default_rng(seed)
    places = ((), (3, 1), (2, 1, 4), (1, 1, 1), (4,))[int(rng.integers(5))]
    thresholds = awkward_thresholds(rng, (*places, amount), kind)
    x = near(rng, thresholds, (2, 3, 4))
    dtype = rng.choice([np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8])
    drawn = (
        rng.standard_normal(thresholds.shape)
        if dtype in (np.float32, np.float64)
        else rng.integers(-3, 4, thresholds.shape)
    )
    weights = np.asarray(drawn).astype(dtype)
    if rng.random() < 0.3:
        weights = weights[..., :1]
    opset, fed = int(rng.choice(OPSETS)), bool(rng.random() < 0.3 and amount < 64)
    model = ours(x, thresholds, weights, opset=opset, fed=fed, out_bias=float(rng.choice([0, 1, 3])))
    assert_computes(model, x, results(model, x)["numpy"])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float64"]),
    st.sampled_from([1, 2, 16, 40, 120]),
    st.sampled_from([100, 30000, 2**40]),
)
def test_all_ways_agree_on_other_types(seed: int, dtype: str, amount: int, reach: int):
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    low, high = (
        (-reach, reach) if kind.kind == "f" else (max(-reach, np.iinfo(kind).min), min(reach, np.iinfo(kind).max))
    )
    thresholds = rng.integers(low, high, (3, 1, amount), endpoint=kind.kind != "f").astype(np.float64)
    x = np.choose(
        rng.integers(0, 2, (2, 3, 5)), [rng.choice(thresholds.ravel(), (2, 3, 5)), rng.integers(low, high, (2, 3, 5))]
    )
    with np.errstate(over="ignore"):
        x, thresholds = x.astype(kind), thresholds.astype(kind)
    opset = int(rng.choice(OPSETS))
    model = ours(x, thresholds, opset=opset, fed=bool(rng.random() < 0.4))
    assert_computes(model, x, results(model, x)["numpy"])


def test_signed_weights_make_a_function_that_falls():
    x = np.array([-2, -1, 0, 1, 2, NAN], np.float32)
    model = ours(x, np.array([-1, 1], np.float32), np.array([3, -2], np.int32), out_bias=5.0)
    assert_computes(model, x, np.array([5, 8, 8, 6, 6, 5], np.int32))


def test_thresholds_broadcast_along_any_axes():
    x = np.zeros((2, 1, 3), np.float32)
    thresholds = np.array([-1, 0, 1, 2], np.float32).reshape(4, 1, 1)
    expected = np.broadcast_to(np.array([1, 1, 0, 0], np.float32).reshape(4, 1), (2, 4, 3))
    assert_computes(ours(x, thresholds), x, expected)


def test_whole_thresholds_of_floats_are_looked_up():
    x = near(np.random.default_rng(0), np.arange(-30, 30, dtype=np.float32), (500,))
    model = one_node(MultiThreshold, x, np.arange(-30, 30, dtype=np.float32)[None])
    counts = np.zeros(500, np.float32)
    for threshold in range(-30, 30):
        counts += x >= threshold
    assert_computes(model, x, counts)
    assert "Floor" in operators(model)


def test_uneven_thresholds_are_searched_and_even_ones_are_not():
    x = np.zeros(1, np.float32)
    even = one_node(MultiThreshold, x, np.linspace(-3.3, 7.1, 255, dtype=np.float32)[None])
    uneven = one_node(MultiThreshold, x, np.exp(np.linspace(-80, 80, 255)).astype(np.float32)[None])
    assert operators(even).count("Gather") == 2
    assert operators(uneven).count("Gather") == 8


def test_memory_does_not_grow_with_thresholds():
    for amount in (15, 255):
        model = one_node(
            MultiThreshold, np.zeros((1, 4), np.float32), np.linspace(0, 1, amount, dtype=np.float32)[None]
        )
        assert not {"Unsqueeze", "ReduceSum", "Expand"} & set(operators(model))


@pytest.mark.parametrize("amount", [3, 40])
@pytest.mark.parametrize("shape", [(), (3,), (0, 3), (2, 0, 4)])
def test_shared_thresholds_are_for_any_shape(shape: tuple[int, ...], amount: int):
    x = np.full(shape, 0.5, np.float32)
    model = one_node(MultiThreshold, x, np.arange(amount, dtype=np.float32)[None])
    assert_computes(model, x, np.ones(shape, np.float32))


def test_layout_tells_the_axes_where_the_shape_does_not():
    x = np.zeros((2, 3, 4), np.float32)
    for layout in ("NCW", ""):
        model = one_node(MultiThreshold, x, np.zeros((3, 2), np.float32), data_layout=layout)
        model.graph.inputs[0].shape = None
        if layout:
            assert_computes(model, x, np.full((2, 3, 4), 2, np.float32))
        else:
            with pytest.raises(ModelError, match="number of axes of x is not known"):
                operators(model)


def operators(model: ir.Model) -> list[str]:
    from onnx_passes.ops.describe import expander

    built = expander()(model.graph[0], model.opset_imports)
    assert built is not None
    names = [node.op_type for node in built.nodes]
    built.discard()
    return names


@pytest.mark.parametrize(
    ("shape", "thresholds", "given", "message"),
    [
        ((2, 3), np.zeros((4, 2), np.float32), {}, "thresholds for 4 channels, but x has 3 channels"),
        ((2,), np.zeros((4, 2), np.float32), {}, "no such axis"),
        ((2, 3), np.zeros((3,), np.float32), {}, "need the shape"),
        ((2, 3), np.zeros((3, 0), np.float32), {}, "no axis of length 0"),
    ],
)
def test_refuses_thresholds_that_do_not_fit(shape: Any, thresholds: np.ndarray, given: Any, message: str):
    model = one_node(MultiThreshold, np.zeros(shape, np.float32), thresholds, **given)
    with pytest.raises(ModelError, match=message):
        operators(model)


def test_refuses_integers_in_the_form_of_qonnx():
    with pytest.raises(ModelError, match="is for floats"):
        operators(one_node(MultiThreshold, np.zeros((1, 2), np.int32), np.zeros((1, 2), np.int32)))


def test_refuses_a_type_that_cannot_count_so_far():
    x = np.zeros(3, np.int8)
    with pytest.raises(ModelError, match="int8 cannot count 200 thresholds"):
        operators(ours(x, np.zeros(200, np.int8)))
    assert_computes(ours(x, np.zeros(200, np.int8), np.ones(1, np.int32)), x, np.full(3, 200, np.int32))


def test_refuses_a_bias_that_integers_cannot_hold():
    with pytest.raises(ModelError, match=r"out_bias is 0\.5"):
        operators(ours(np.zeros(3, np.int32), np.zeros(2, np.int32), out_bias=0.5))


def test_refuses_an_unknown_number_of_thresholds():
    model = one_node(MultiThreshold, np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32), fed=True)
    model.graph.inputs[1].shape = None
    with pytest.raises(ModelError, match="number of thresholds has to be known"):
        operators(model)
