"""Groups of tensors with the same channels, from the products that compute to the products that contract them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integers, reduced_axes
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, QONNX_DOMAINS
from onnx_passes.ops.multi_threshold import channel_axis
from onnx_passes.ops.quantizer import is_quantizer


class ChannelPlace(NamedTuple):
    """Position of channels: the axis, counted from the end, and the number of consecutive elements per channel."""

    axis: int
    block: int = 1


@dataclass(frozen=True)
class ChannelSpread:
    """Channels of an operator that computes each channel alone: their positions in inputs, results and constants.

    ``cuts`` maps indices of constant inputs to the axis of channels, counted from the end.
    """

    places: dict[ir.Value, ChannelPlace]
    cuts: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class ChannelGroup:
    """Values with the same channels: ``makers`` compute them, ``between`` maps each, ``readers`` contract them."""

    channels: int
    places: dict[ir.Value, ChannelPlace] = field(default_factory=dict[ir.Value, ChannelPlace])
    makers: dict[ir.Node, None] = field(default_factory=dict[ir.Node, None])
    between: dict[ir.Node, ChannelSpread] = field(default_factory=dict[ir.Node, ChannelSpread])
    readers: dict[ir.Node, None] = field(default_factory=dict[ir.Node, None])

    @property
    def nodes(self) -> set[ir.Node]:
        """Return all nodes of the group."""
        return {*self.makers, *self.between, *self.readers}


def group_of(maker: ir.Node) -> ChannelGroup | str:
    """Follow the channels of a product in all directions; return the reason if another operator mixes them."""
    place = made_place(maker)
    channels = None if place is None else dimension(maker.outputs[0], place.axis)
    if place is None or channels is None:
        return "the number of its channels is not known"
    group, waiting = ChannelGroup(channels), [(maker.outputs[0], place)]
    while waiting:
        value, place = waiting.pop()
        if value in group.places:
            if group.places[value] != place:
                return f"'{value.name}' has its channels in two places"
            continue
        group.places[value] = place
        reason = _boundary(value)
        if reason:
            return reason
        producer = value.producer()
        assert producer is not None
        for node in (producer, *dict.fromkeys(value.consumers())):
            inside = node.graph is not maker.graph
            found = f"a body reads '{value.name}'" if inside else _enter(group, node, value, place)
            if isinstance(found, str):
                return found
            waiting.extend(found.items())
    return group


def made_place(node: ir.Node) -> ChannelPlace | None:
    """Return the position of the channels that a product with constant weights computes; None for other nodes."""
    weights = _weights(node)
    length = rank(node.outputs[0])
    if weights is None or length is None:
        return None
    return ChannelPlace(1 - length) if node.op_type == "Conv" else ChannelPlace(-1)


def _weights(node: ir.Node) -> tuple[int, ...] | None:
    """Return the shape of the constant weights of a product that contracts all channels; None for other nodes."""
    if node.domain or node.op_type not in ("Conv", "MatMul") or constant(argument(node, 1)) is None:
        return None
    shape = static_shape(node.inputs[1])
    is_matrix = node.op_type == "MatMul" and shape is not None and len(shape) == 2
    is_whole = node.op_type == "Conv" and node.attributes.get_int("group", 1) == 1
    bias = argument(node, 2)
    return shape if (is_matrix or is_whole) and (bias is None or constant(bias) is not None) else None


def _boundary(value: ir.Value) -> str:
    if value.is_graph_output():
        return f"its channels are those of the output '{value.name}'"
    if value.producer() is None:
        return f"its channels are joined with those of '{value.name}'"
    return ""


def _enter(
    group: ChannelGroup, node: ir.Node, value: ir.Value, place: ChannelPlace
) -> dict[ir.Value, ChannelPlace] | str:
    """Add a node to the group; return the values whose channels it connects, or the reason for a refusal."""
    if node in group.between:
        return {}
    if node.outputs[0] is value and made_place(node) == ChannelPlace(place.axis):
        group.makers[node] = None
        return {}
    if node.inputs[0] is value and _reads(node, place):
        group.readers[node] = None
        return {}
    spread = _spread(node, value, place, group.channels)
    if isinstance(spread, str):
        return spread
    group.between[node] = spread
    return spread.places


def _reads(node: ir.Node, place: ChannelPlace) -> bool:
    length = rank(node.inputs[0])
    if _weights(node) is None or length is None:
        return False
    return place == ChannelPlace(1 - length) if node.op_type == "Conv" else place.axis == -1


def _spread(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    family = traits_of(node).kind
    rule: Callable[[ir.Node, ir.Value, ChannelPlace, int], ChannelSpread | str] | None = _RULES.get(node.op_type)
    if rule is None and (family == "elementwise" or (node.domain in QONNX_DOMAINS and is_quantizer(node))):
        rule = _elementwise
    if rule is None and family in ("pooling", "reduction"):
        rule = _pooling if family == "pooling" else _reduction
    if rule is None or len(node.outputs) != 1:
        return f"{name_of(node)} mixes its channels"
    return rule(node, value, place, channels)


def _elementwise(
    node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int, first: int = 0
) -> ChannelSpread | str:
    """Return the operands as wide as the result along the axis; broadcast operands have no channels."""
    places, cuts = dict[ir.Value, ChannelPlace](), dict[int, int]()
    for index, given in enumerate([*node.inputs[first:], node.outputs[0]]):
        if given is None or (rank(given) is not None and (rank(given) or 0) < -place.axis):
            continue
        size = dimension(given, place.axis)
        if size == channels * place.block:
            if given is not node.outputs[0] and constant(given) is not None:
                cuts[index + first] = place.axis
            else:
                places[given] = place
        elif size != 1 or given is node.outputs[0]:
            return f"{name_of(node)} does not compute its channels one by one"
    return ChannelSpread(places, cuts)


def _thresholds(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    length, held = rank(value), constant(node.inputs[1])
    places = {given: place for given in (node.inputs[0], node.outputs[0]) if given is not None}
    if held is None or length is None or value not in places:
        return f"the thresholds of {name_of(node)} are not constant"
    if node.domain == OUR_DOMAIN:
        # The last axis of thresholds and weights counts the thresholds.
        cuts: dict[int, int] = {}
        for index, given in enumerate(node.inputs[1:], 1):
            size = dimension(given, place.axis - 1)
            if size == channels * place.block:
                cuts[index] = place.axis - 1
            elif size not in (1, None):
                return f"{name_of(node)} does not compute its channels one by one"
        return ChannelSpread(places, cuts)
    if held.shape[0] == 1:
        return ChannelSpread(places)
    axis = channel_axis(node.attributes.get_string("data_layout", ""), length) - length
    if axis != place.axis or held.shape[0] != channels * place.block:
        return f"the thresholds of {name_of(node)} are for another axis"
    return ChannelSpread(places, {1: -2})


def _pooling(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    length = rank(value)
    if length is None or place != ChannelPlace(1 - length):
        return f"{name_of(node)} does not compute its channels one by one"
    return ChannelSpread({given: place for given in (node.inputs[0], node.outputs[0]) if given is not None})


def _reduction(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    x, axes = node.inputs[0], reduced_axes(node)
    length = rank(x)
    if x is None or axes is None or length is None or node.op_type.startswith("Arg"):
        return f"the axes of {name_of(node)} are not known"
    gone = {axis % length for axis in axes}
    left = [axis for axis in range(length) if axis not in gone or node.attributes.get_int("keepdims", 1)]
    before = place.axis + length if value is x else left[place.axis]
    if before in gone:
        return f"{name_of(node)} reduces over its channels"
    after = left.index(before) - len(left)
    return ChannelSpread(
        {x: ChannelPlace(before - length, place.block), node.outputs[0]: ChannelPlace(after, place.block)}
    )


def _depthwise(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    shape, length, bias = static_shape(node.inputs[1]), rank(value), argument(node, 2)
    alone = shape is not None and shape[:2] == (channels, 1) and node.attributes.get_int("group", 1) == channels
    held = constant(node.inputs[1]) is not None and (bias is None or constant(bias) is not None)
    if not alone or not held or length is None or shape is None or place != ChannelPlace(1 - length):
        return f"{name_of(node)} does not compute its channels one by one"
    x = node.inputs[0]
    assert x is not None
    return ChannelSpread({x: place, node.outputs[0]: place}, {1: -len(shape), **({} if bias is None else {2: -1})})


def _transpose(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    x, length = node.inputs[0], rank(value)
    if x is None or length is None:
        return f"the rank of '{value.name}' is not known"
    perm = list(node.attributes.get_ints("perm") or range(length)[::-1])
    before = place.axis if value is x else perm[place.axis] - length
    return ChannelSpread(
        {
            x: ChannelPlace(before, place.block),
            node.outputs[0]: ChannelPlace(perm.index(before + length) - length, place.block),
        }
    )


def _flattened(node: ir.Node, value: ir.Value, place: ChannelPlace, channels: int) -> ChannelSpread | str:
    """Return the channels of a flattening, which has the pixels of a channel as consecutive elements."""
    x, result = node.inputs[0], node.outputs[0]
    length, pixels = rank(x), 1
    sizes = [] if x is None or length is None else [dimension(x, axis) for axis in range(2, length)]
    known = [size for size in sizes if size is not None]
    if x is None or length is None or length < 2 or rank(result) != 2 or len(known) < len(sizes):
        return f"{name_of(node)} mixes its channels with other axes"
    pixels = math.prod(known)
    block = place.block * pixels if value is x else place.block
    expected = ChannelPlace(1 - length, block // pixels) if block % pixels == 0 else None
    is_flat = dimension(result, 1) == channels * block and (node.op_type == "Flatten" or _keeps_rows(node))
    if expected is None or not is_flat or (value is x and place != expected):
        return f"{name_of(node)} mixes its channels with other axes"
    return ChannelSpread({x: expected, result: ChannelPlace(-1, block)})


def _keeps_rows(node: ir.Node) -> bool:
    """Return whether a Reshape keeps the first axis, for any size."""
    shape = integers(node, 1, "shape")
    if shape is None or len(shape) != 2:
        return False
    return shape[0] == 0 or shape[0] in (-1, dimension(node.inputs[0], 0))


_RULES: dict[str, Callable[[ir.Node, ir.Value, ChannelPlace, int], ChannelSpread | str]] = {
    "MultiThreshold": _thresholds,
    "Conv": _depthwise,
    "Transpose": _transpose,
    "Flatten": _flattened,
    "Reshape": _flattened,
}
