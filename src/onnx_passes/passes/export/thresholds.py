"""The step functions of both kinds of MultiThreshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.ops.definition import OUR_DOMAIN, definition_of
from onnx_passes.passes.qonnx.dialect import GENERAL


@dataclass(frozen=True)
class StepFunction:
    """A function with the value ``levels[..., k]`` where it has reached ``k`` of the thresholds.

    Thresholds ascend along the last axis; the axes before broadcast against the values.
    """

    thresholds: np.ndarray
    levels: np.ndarray

    @property
    def amount(self) -> int:
        """Return the number of thresholds."""
        return int(self.thresholds.shape[-1])

    @property
    def places(self) -> tuple[int, ...]:
        """Return the shape of all axes before that of the thresholds."""
        return self.thresholds.shape[:-1]

    def with_thresholds(self, thresholds: np.ndarray) -> StepFunction:
        """Return the same levels at other thresholds."""
        return StepFunction(thresholds, self.levels)


def is_threshold(node: ir.Node) -> bool:
    """Return whether a node is a MultiThreshold of QONNX."""
    return (node.domain, node.op_type) == (GENERAL, "MultiThreshold")


def step_function(node: ir.Node) -> StepFunction | str:
    """Return the step function of a MultiThreshold, or the reason if it is not constant, or not of integers."""
    definition, x, given = definition_of(node), node.inputs[0], constant(node.inputs[1])
    axes = rank(x)
    if definition is None or given is None or axes is None or np.isnan(given).any() or 0 in given.shape:
        return "its thresholds are not constant numbers, or the rank of its input is not known"
    attributes = definition.checked(node)
    bias = float(attributes["out_bias"])
    if node.domain == OUR_DOMAIN:
        weights = constant(node.inputs[2]) if len(node.inputs) > 2 else np.ones(1, np.float32)
        if weights is None:
            return "its weights are not constant"
        found = _weighted(given, weights, bias)
    else:
        shape = given.shape[:1] if given.shape[0] == 1 else _shape_of_channels(given.shape[0], attributes, axes)
        levels = float(attributes["out_scale"]) * np.arange(given.shape[1] + 1, dtype=np.float64) + bias
        found = StepFunction(np.sort(given, axis=-1).reshape(*shape, -1), levels)
    if (found.levels != np.rint(found.levels)).any():
        return "its levels are not integers"
    return StepFunction(found.thresholds, found.levels.astype(np.int64))


def _shape_of_channels(channels: int, attributes: dict[str, object], axes: int) -> tuple[int, ...]:
    layout = str(attributes["data_layout"]) or {2: "NC", 3: "NWC", 4: "NCHW"}.get(axes, "NC")
    behind = 0 if layout.endswith("C") else axes - 2
    return (channels, *(1,) * behind)


def _weighted(thresholds: np.ndarray, weights: np.ndarray, bias: float) -> StepFunction:
    order = np.argsort(thresholds, axis=-1, kind="stable")
    weights = np.broadcast_to(weights, thresholds.shape).astype(np.float64)
    sums = np.cumsum(np.take_along_axis(weights, order, axis=-1), axis=-1)
    levels = np.concatenate([np.zeros((*sums.shape[:-1], 1)), sums], axis=-1) + bias
    return StepFunction(np.take_along_axis(thresholds, order, axis=-1), levels)
