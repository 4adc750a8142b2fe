"""Thresholds take up what is computed around them, and count the same on every integer."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.thresholds.fuse_thresholds import FuseThresholds
from tests.passes.thresholds.tools import MT, WEIGHTED, check_integers, grid, make, neighbours, results, thresholds
from tests.passes.tools import apply, notes_of, operators

T = np.array([[-3, 0.5, 2, 2], [-1, 0, 1, 9], [0.25, 0.5, 0.75, 1], [5, -5, 3, 3.5]], np.float32)
SCALES = [0.25, 0.3, 1.5, 0.0625]
BIASES = [0.5, -1.25, 3.3, 0]
NORM = {"gamma": [0.5, 0.75, 0, 1e-3], "beta": [1, 0.5, 2.4, -1], "mean": [3, -2, 0.1, 0], "var": [4, 0.5, 1, 2]}
LAYOUT = 'data_layout: string = "NC"'

BEFORE = {
    "affine": ("a = Mul(q, s) t = Add(a, b)", {"s": SCALES, "b": BIASES}),
    "divided": ("a = Div(q, s) t = Sub(a, b)", {"s": SCALES, "b": BIASES}),
    "norm": ("t = BatchNormalization(q, gamma, beta, mean, var)", NORM),
    "relu": ("a = Mul(q, s) t = Relu(a)", {"s": SCALES}),
    "sigmoid": ("a = Sigmoid(q) t = Mul(a, s)", {"s": 3}),
    "falling": ("t = Mul(q, s)", {"s": [-0.25, 0.3, -1.5, 0]}),
    "silu": ("a = Sigmoid(q) t = Mul(a, q)", {}),
    "zero": ("t = Mul(q, s)", {"s": 0}),
}


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize(
    "attributes", ["", "out_scale: float = 2.0, out_bias: float = -3.0,", "out_scale: float = 0.1,"]
)
def test_takes_up_what_is_before(name: str, attributes: str):
    body, constants = BEFORE[name]
    model = make(f"{body} y = {MT} <{attributes} {LAYOUT}> (t, T)", {**constants, "T": T})
    q = grid(-32, 31, 4)
    expected = results(model, q)
    changed = apply(FuseThresholds(semantics="float"), model)
    np.testing.assert_array_equal(results(model, q), expected)
    if name in ("falling", "silu") and "0.1" in attributes:
        return
    assert changed
    assert operators(model.graph) == ["MultiThreshold"]


@pytest.mark.parametrize("weights", [[1, 2, 1, 3], [1, -2, 1, 1]])
def test_takes_up_what_is_before_weighted_thresholds(weights: list[int]):
    model = make(f"t = Mul(q, s) y = {WEIGHTED} (t, T, w)", {"s": [0.25, 0.3, -1.5, 2], "T": T, "w": weights})
    model = check_integers(FuseThresholds(semantics="float"), model, -32, 31, 4)
    assert operators(model.graph) == ["MultiThreshold"]


def test_takes_up_what_is_before_on_floats():
    model = make(
        f"a = Mul(q, s) t = Add(a, b) y = {MT} <{LAYOUT}> (t, T)", {"s": SCALES, "b": BIASES, "T": T}, datatype=None
    )
    before = model.clone()
    assert apply(FuseThresholds(semantics="float"), model)
    q = np.repeat(neighbours(thresholds(model))[:, None], 4, axis=1)
    np.testing.assert_array_equal(results(model, q), results(before, q))


def test_thresholds_of_thresholds_become_one_node():
    text = f"a = {MT} <{LAYOUT}> (q, T) t = Mul(a, s) y = {MT} <{LAYOUT}> (t, U)"
    model = make(text, {"T": T, "s": 0.5, "U": [[0.5, 1.5]]})
    check_integers(FuseThresholds(semantics="float"), model, -32, 31, 4)
    assert operators(model.graph) == ["MultiThreshold"]


@pytest.mark.parametrize(
    ("behind", "scale", "bias", "datatype"),
    [
        ("y = Add(m, c)", 1, 4, "INT4"),
        ("y = Add(c, m)", 1, 4, "INT4"),
        ("y = Sub(m, c)", 1, 0, ""),
        ("y = Mul(m, c)", 2, 4, ""),
        ("a = Mul(m, c) y = Add(a, c)", 2, 6, ""),
    ],
)
def test_constants_behind_become_scale_and_bias(behind: str, scale: float, bias: float, datatype: str):
    text = f"m = {MT} <out_bias: float = 2.0, {LAYOUT}> (q, T) {behind}"
    model = check_integers(FuseThresholds(semantics="float"), make(text, {"T": T, "c": [2.0]}), -32, 31, 4)
    (node,) = list(model.graph)
    assert node.attributes.get_float("out_scale") == scale
    assert node.attributes.get_float("out_bias") == bias
    assert node.attributes.get_string("data_layout") == "NC"


def test_a_sign_bias_gives_a_signed_data_type():
    model = make(f'm = {MT} <out_dtype: string = "UINT2", {LAYOUT}> (q, T) y = Add(m, c)', {"T": T[:, :3], "c": -2})
    check_integers(FuseThresholds(semantics="float"), model, -32, 31, 4)
    assert next(iter(model.graph)).attributes.get_string("out_dtype") == "INT2"


def test_scales_are_taken_up_on_demand_only():
    text = f"m = {MT} <{LAYOUT}> (q, T) y = Mul(m, c)"
    assert not apply(FuseThresholds(semantics="float"), make(text, {"T": T, "c": 0.3}))
    model = check_integers(FuseThresholds(scales=True), make(text, {"T": T, "c": 0.3}), -32, 31, 4)
    assert operators(model.graph) == ["MultiThreshold"]


def test_levels_are_never_rounded_differently():
    # 0.1 * k * 0.3 is not 0.03 * k in floats.
    text = f"m = {MT} <out_scale: float = 0.1, {LAYOUT}> (q, T) y = Mul(m, c)"
    model = make(text, {"T": np.arange(30)[None], "c": 0.3})
    q = grid(-32, 31, 4)
    expected = results(model, q)
    assert not apply(FuseThresholds(scales=True), model)
    np.testing.assert_array_equal(results(model, q), expected)


@pytest.mark.parametrize("constant", [[1, 2, 3, 4], -1, 0, [[[1.0]]]])
def test_refuses_other_factors(constant: object):
    rank = np.ndim(constant)
    model = make(
        f"m = {MT} <{LAYOUT}> (q, T) y = Mul(m, c)",
        {"T": T, "c": constant},
        result="1,N,4" if rank == 3 else "N,4",
    )
    assert not apply(FuseThresholds(semantics="float"), model)


def test_says_why_nothing_was_before():
    model = make(f"a = Sin(q) y = {MT} <{LAYOUT}> (a, T)", {"T": T}, datatype=None)
    (note,) = notes_of(FuseThresholds(semantics="float"), model)
    assert "goes up and down" in note


def test_what_others_use_stays():
    model = make(f"a = Mul(q, s) y = {MT} <{LAYOUT}> (a, T)", {"T": T, "s": 0.5})
    model.graph.outputs.append(next(iter(model.graph)).outputs[0])
    assert apply(FuseThresholds(semantics="float"), model)
    assert sorted(operators(model.graph)) == ["Mul", "MultiThreshold"]
    (node,) = [node for node in model.graph if node.op_type == "MultiThreshold"]
    assert node.inputs[0] is model.graph.inputs[0]
