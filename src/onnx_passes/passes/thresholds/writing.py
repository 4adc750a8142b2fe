"""Write thresholds as a node: in QONNX's form where it can say it, else in the general one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.smallest import smallest_for_values
from onnx_passes.graph.edits import copy_type_and_shape, remove_if_dead
from onnx_passes.graph.names import Names
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.thresholds.levels import Levels
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS, OPERATOR
from onnx_passes.passes.thresholds.search import Domain
from onnx_passes.passes.thresholds.tail import Tail

_LAYOUTS: dict[tuple[int, int | None], str] = {
    (2, None): "NC",
    (2, 1): "NC",
    (3, None): "NWC",
    (3, 1): "NCW",
    (3, 2): "NWC",
    (4, None): "NCHW",
    (4, 1): "NCHW",
    (4, 3): "NHWC",
    (5, None): "NCDHW",
    (5, 1): "NCDHW",
    (5, 4): "NDHWC",
}


def layout_of_channels(axes: int, channels: Collection[int]) -> str | None:
    """Return how QONNX names the axes of a tensor of so many axes whose channels are on these, if it can."""
    if len(channels) > 1:
        return None
    return _LAYOUTS.get((axes, next(iter(channels), None)))


@dataclass(frozen=True)
class Counting:
    """The result is the lowest level and one level more for each threshold that is reached by what comes in."""

    thresholds: np.ndarray
    domain: Domain


@dataclass(frozen=True)
class Steps:
    """The result starts at the level ``start`` and changes by ``jump`` levels at each threshold, for each channel."""

    start: np.ndarray
    thresholds: np.ndarray
    jump: np.ndarray


@dataclass(frozen=True)
class _Weighted:
    """What the general form takes."""

    thresholds: np.ndarray
    weights: np.ndarray
    bias: float


def is_exact(steps: Steps, levels: Levels) -> bool:
    """Tell whether the general form adds steps up to the very levels."""
    form = _weighted(steps, levels)
    first = steps.start[:, None] - steps.start.min() if form.weights.shape != steps.jump.shape else steps.jump[:, :0]
    places = steps.start.min() + np.cumsum(np.concatenate([first, steps.jump], axis=1), axis=1)
    sums = np.cumsum(form.weights, axis=1, dtype=np.float32) + np.float32(form.bias)
    return bool(np.float32(form.bias) == levels.values[steps.start.min()] and (sums == levels.values[places]).all())


def write(model: ir.Model, names: Names, tail: Tail, found: Counting | Steps, levels: Levels) -> ir.Node:
    """Make the node that stands for a tail; its constants are put into the model."""
    layout = layout_of_channels(rank(tail.base) or 0, tail.axes)
    result = tail.result
    if isinstance(found, Counting) and layout is not None:
        thresholds = initializer(model, names, f"{result.name}_thresholds", _joined(found.thresholds))
        domain = COUNTING_DOMAINS[0] if levels.domain == OUR_DOMAIN else levels.domain
        model.opset_imports.setdefault(domain, 1)
        attributes = [
            ir.AttrString("out_dtype", levels.datatype or str(smallest_for_values(levels.values))),
            ir.AttrFloat32("out_scale", levels.scale),
            ir.AttrFloat32("out_bias", levels.bias),
            ir.AttrString("data_layout", layout),
        ]
        node = ir.Node(domain, OPERATOR, [tail.base, thresholds], attributes)
    else:
        node = _general(model, names, tail, _weighted(found, levels))
    node.name = names.node(f"{result.name}/{OPERATOR}")
    output = node.outputs[0]
    output.name = names.value(f"{result.name}_levels")
    copy_type_and_shape(result, output)
    if levels.datatype:
        set_datatype(output, levels.datatype)
    return node


def _weighted(found: Counting | Steps, levels: Levels) -> _Weighted:
    thresholds = found.thresholds
    if isinstance(found, Counting):
        return _Weighted(thresholds, np.full(thresholds.shape, levels.scale, np.float32), levels.bias)
    start, weights = found.start, (found.jump * levels.scale).astype(np.float32)
    lowest = int(start.min())
    # A start that differs from channel to channel is a step before everything.
    if (start != lowest).any():
        first = np.full((len(start), 1), -np.inf, np.float32)
        thresholds = np.concatenate([first, thresholds], axis=1)
        height = ((start - lowest) * levels.scale)[:, None].astype(np.float32)
        weights = np.concatenate([height, weights], axis=1)
    return _Weighted(thresholds, weights, float(levels.values[lowest]))


def _general(model: ir.Model, names: Names, tail: Tail, form: _Weighted) -> ir.Node:
    """Write the form in which thresholds lie beside their channel, and each has a weight."""
    shape = tail.layout
    inputs = [
        tail.base,
        initializer(model, names, f"{tail.result.name}_thresholds", form.thresholds.reshape(*shape, -1)),
        initializer(model, names, f"{tail.result.name}_weights", form.weights.reshape(*shape, -1)),
    ]
    model.opset_imports.setdefault(OUR_DOMAIN, 1)
    return ir.Node(OUR_DOMAIN, OPERATOR, inputs, [ir.AttrFloat32("out_bias", form.bias)])


def _joined(thresholds: np.ndarray) -> np.ndarray:
    """Write thresholds once that are the same for all channels."""
    same = len(thresholds) > 1 and bool((thresholds == thresholds[:1]).all())
    return thresholds[:1] if same else thresholds


def initializer(model: ir.Model, names: Names, wish: str, array: np.ndarray) -> ir.Value:
    """Put numbers into a model, annotated with their data type."""
    held = np.ascontiguousarray(array, np.float32)
    value = ir.Value(name=names.value(wish), const_value=ir.Tensor(held), shape=ir.Shape(held.shape))
    value.type = ir.TensorType(ir.DataType.FLOAT)
    set_datatype(value, smallest_for_values(held))
    model.graph.register_initializer(value)
    return value


def replace_constant(model: ir.Model, names: Names, node: ir.Node, index: int, array: np.ndarray) -> None:
    """Give a node another constant; the one before goes if nothing else uses it."""
    old = node.inputs[index]
    assert old is not None
    node.replace_input_with(index, initializer(model, names, f"{old.name}", array))
    producer = old.producer()
    if producer is not None:
        remove_if_dead([producer])
    elif old.name is not None and not old.uses() and not old.is_graph_output():
        model.graph.initializers.pop(old.name, None)
