"""Write thresholds as a node: in QONNX's form where it can say it, else in the general one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.smallest import smallest_for_values
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.names import Names
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.levels import Levels
from onnx_passes.passes.thresholds.tail import Tail

QONNX_DOMAIN = "qonnx.custom_op.general"
_LAYOUTS: dict[tuple[int, int | None], str] = {
    (2, None): "NC",
    (2, 1): "NC",
    (3, None): "NWC",
    (3, 1): "NCW",
    (3, 2): "NWC",
    (4, None): "NCHW",
    (4, 1): "NCHW",
    (4, 3): "NHWC",
}


@dataclass(frozen=True)
class Counting:
    """The result is ``low`` and one level more for each threshold that is reached."""

    thresholds: np.ndarray
    low: int


@dataclass(frozen=True)
class Steps:
    """The result starts at ``start`` and changes by ``jump`` at each threshold, for each channel."""

    start: np.ndarray
    thresholds: np.ndarray
    jump: np.ndarray


def write(model: ir.Model, names: Names, tail: Tail, found: Counting | Steps, levels: Levels) -> ir.Node:
    """Make the node that stands for a tail; its constants are put into the model."""
    layout = _LAYOUTS.get((rank(tail.base) or 0, tail.axis)) if len(tail.axes) < 2 else None
    result = tail.result
    if isinstance(found, Counting) and layout is not None:
        thresholds = _initializer(model, names, f"{result.name}_thresholds", _joined(found.thresholds))
        model.opset_imports.setdefault(QONNX_DOMAIN, 1)
        attributes = [
            ir.AttrString("out_dtype", levels.datatype),
            ir.AttrFloat32("out_scale", float(levels.step)),
            ir.AttrFloat32("out_bias", float(found.low)),
            ir.AttrString("data_layout", layout),
        ]
        node = ir.Node(QONNX_DOMAIN, "MultiThreshold", [tail.base, thresholds], attributes)
    else:
        node = _general(model, names, tail, found, levels)
    node.name = names.node(f"{result.name}/MultiThreshold")
    output = node.outputs[0]
    output.name = names.value(f"{result.name}_levels")
    copy_type_and_shape(result, output)
    set_datatype(output, levels.datatype)
    return node


def _general(model: ir.Model, names: Names, tail: Tail, found: Counting | Steps, levels: Levels) -> ir.Node:
    """Write the form in which thresholds lie beside their channel, and each has a weight."""
    if isinstance(found, Counting):
        weights = np.full(found.thresholds.shape, levels.step, np.float32)
        start = np.full(len(found.thresholds), found.low)
    else:
        weights, start = found.jump.astype(np.float32), found.start
    # A start that differs from channel to channel is a step before everything.
    lowest = int(start.min())
    if (start != lowest).any():
        first = np.full((len(start), 1), -np.inf, np.float32)
        thresholds = np.concatenate([first, found.thresholds], axis=1)
        weights = np.concatenate([(start - lowest)[:, None].astype(np.float32), weights], axis=1)
    else:
        thresholds = found.thresholds
    shape = tail.layout
    inputs = [
        tail.base,
        _initializer(model, names, f"{tail.result.name}_thresholds", thresholds.reshape(*shape, -1)),
        _initializer(model, names, f"{tail.result.name}_weights", weights.reshape(*shape, -1)),
    ]
    model.opset_imports.setdefault(OUR_DOMAIN, 1)
    attributes = [ir.AttrString("out_dtype", levels.datatype), ir.AttrFloat32("out_bias", float(lowest))]
    return ir.Node(OUR_DOMAIN, "MultiThreshold", inputs, attributes)


def _joined(thresholds: np.ndarray) -> np.ndarray:
    """Write thresholds once that are the same for all channels."""
    same = len(thresholds) > 1 and bool((thresholds == thresholds[:1]).all())
    return thresholds[:1] if same else thresholds


def _initializer(model: ir.Model, names: Names, wish: str, array: np.ndarray) -> ir.Value:
    held = np.ascontiguousarray(array, np.float32)
    value = ir.Value(name=names.value(wish), const_value=ir.Tensor(held), shape=ir.Shape(held.shape))
    value.type = ir.TensorType(ir.DataType.FLOAT)
    set_datatype(value, smallest_for_values(held))
    model.graph.register_initializer(value)
    return value
