"""Thresholds that step up in the place of those that step down."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.passes.thresholds.flip_thresholds import FlipThresholds
from tests.passes.export.tools import OURS, network, results, samples
from tests.passes.tools import apply, operators

UP_AND_DOWN = np.float32([[[1, 1, 1], [-1, -1, -1]]])
AT = np.float32([[[-3, 0.5, 2], [-2, 1, 4]]])


def stepping(weights: np.ndarray, at: np.ndarray = AT, body: str = "b = MatMul (a, w)", more: str = "") -> ir.Model:
    return network(
        "float[3, 4] x",
        f"float[3, 2] y{more}",
        f"a = q(-3, 4) x\n{body}\ny = {OURS}.MultiThreshold <out_bias = 2.0> (b, t, h)",
        {"w": np.float32([[1, 2], [-1, 0], [0, 1], [2, -1]]), "t": at, "h": weights},
    )


def flipped(model: ir.Model, pipeline: str = "flip-thresholds") -> tuple[ir.Model, str]:
    inputs = samples(model, size=5)
    result = onnx_passes.apply(model, pipeline)
    for found, wanted in zip(results(result.model, inputs), results(model, inputs), strict=True):
        assert np.array_equal(found[0], wanted[0])
    reasons = [reason for step in result.record.steps for rule in step.rules for reason in rule.refused]
    return result.model, " ".join(reasons)


HEIGHTS = {
    "down in one channel": UP_AND_DOWN,
    "down in all": -np.abs(UP_AND_DOWN),
    "of several heights": UP_AND_DOWN * np.float32([1, 2, 3]),
    "partly of none": UP_AND_DOWN * np.float32([0, 1, 0]),
}


@pytest.mark.parametrize("kind", HEIGHTS)
def test_channels_that_step_down_are_negated(kind: str):
    model, _ = flipped(stepping(HEIGHTS[kind]))
    weights = model.graph[-1].inputs[2]
    assert weights is not None
    assert weights.const_value is not None
    assert (weights.const_value.numpy() >= 0).all()
    assert apply(FlipThresholds(), model) is False


def test_one_count_is_enough_then():
    model, _ = flipped(stepping(UP_AND_DOWN), "flip-thresholds, decompose-thresholds")
    assert operators(model.graph) == ["MultiThreshold", "MatMul", "MultiThreshold"]


def test_steps_that_nothing_reaches_do_not_count():
    at = np.float32([[[-3, 0.5, 2], [-99, 1, 99]]])
    model, _ = flipped(stepping(np.float32([[[1, 1, 1], [5, -1, 7]]]), at))
    assert apply(FlipThresholds(), model) is False


PRODUCT = "b = MatMul (a, w)"
REFUSED = {
    "no step decreases": stepping(np.abs(UP_AND_DOWN)),
    "a channel increases and decreases": stepping(UP_AND_DOWN * np.float32([1, -1, 1])),
    "its levels are not integers": stepping(UP_AND_DOWN / 2),
    "or has other consumers": stepping(UP_AND_DOWN, body=f"{PRODUCT}\nc = Relu (b)", more=", float[3, 2] c"),
    "not a product with constant weights": stepping(UP_AND_DOWN, body="d = MatMul (a, w)\nb = Relu (d)"),
    "not known to be integer": stepping(UP_AND_DOWN, body="b = MatMul (x, w)"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refuses(reason: str):
    model, reasons = flipped(REFUSED[reason])
    assert reason in reasons
    assert OURS in {node.domain for node in model.graph}
