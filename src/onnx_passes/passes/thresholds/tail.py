"""Tails: the elementwise computation between a tensor and a quantizer, one function for each channel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.assembly import ByChannel
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant, is_constant
from onnx_passes.graph.shapes import dimension, rank, same_shape
from onnx_passes.graph.traits import is_elementwise, traits_of
from onnx_passes.ops.quantizer import rounds_to_integers
from onnx_passes.passes.thresholds.nodes import Thresholds, is_thresholds

_ROUGH = frozenset(
    {"Asinh", "Atan", "Celu", "Elu", "Erf", "Exp", "Selu", "Sigmoid", "Sinh", "Softplus", "Softsign", "Tanh"}
)
"""Functions that are computed by approximation: their last bits may go up and down."""
_NOT_EVERYWHERE = frozenset({"Acos", "Acosh", "Asin", "Atanh", "Log", "Sqrt"})
"""Functions that have no result for some numbers."""
_SLOPES = {
    "LeakyRelu": ("alpha", 0.01),
    "Elu": ("alpha", 1.0),
    "Celu": ("alpha", 1.0),
    "ThresholdedRelu": ("alpha", 1.0),
}
"""Functions that only grow where this attribute is not negative."""
_MOST_CHANNELS = 2**14
_MOST_NODES = 256
_PER_CHANNEL = 1
"""The axis of the channels of BatchNormalization."""


@dataclass(frozen=True, eq=False)
class Tail(Fragment, ByChannel):
    """The elementwise chain from ``base`` to ``result``, and the axes with their sizes along which parameters vary."""

    axes: dict[int, int]

    @property
    def base(self) -> ir.Value:
        """Return the value that the chain is computed from."""
        return self.inputs[0]

    @property
    def rank(self) -> int:
        """Return the number of axes of the base."""
        return rank(self.base) or 0

    @property
    def axis(self) -> int | None:
        """Return the axis of the channels, if it is only one."""
        return next(iter(self.axes)) if len(self.axes) == 1 else None

    @property
    def is_by_element(self) -> bool:
        """Tell whether parameters differ along all axes but the first, and these are several."""
        alike = (size for axis, size in enumerate(self.base.shape or ()) if axis > 0 and axis not in self.axes)
        return len(self.axes) > 1 and all(size == 1 for size in alike)

    @property
    def result(self) -> ir.Value:
        """Return what the chain computes."""
        return self.outputs[0]

    @property
    def is_monotone(self) -> bool:
        """Tell whether every channel only grows, or only falls; true of rounding, of what is rounded correctly."""
        return self.is_nearly_monotone and not any(node.op_type in _ROUGH for node in self.nodes)

    @property
    def is_nearly_monotone(self) -> bool:
        """Tell whether every channel only grows, or only falls, but for the last bits of functions like Sigmoid."""
        return all(_is_monotone(node) for node in self.nodes)

    @property
    def hides_base(self) -> bool:
        """Tell whether nothing outside of the tail sees the base, or anything before the result."""
        inside = set(self.nodes)
        values = [self.base, *(node.outputs[0] for node in self.nodes[:-1])]
        return all(not value.is_graph_output() and all(user in inside for user, _ in value.uses()) for value in values)


@dataclass
class _Walk:
    """What was found on the way back from a quantizer; ``open`` is what it is computed from."""

    nodes: list[ir.Node] = field(default_factory=list[ir.Node])
    axes: dict[int, int] = field(default_factory=dict[int, int])
    open: dict[ir.Value, None] = field(default_factory=dict[ir.Value, None])


def find_tails(end: ir.Node, place: Callable[[ir.Node], int]) -> tuple[list[Tail], str]:
    """Walk back from a quantizer as far as all is elementwise and comes from one tensor.

    Returns all tails, the longest last, and why it goes no further. ``place`` says where a node is in the graph: what
    comes later is followed first, so that ways that part and join again are found. No quantizer is passed whose result
    others use, too: it would have to be computed all the same.
    """
    walk = _Walk()
    tails: list[Tail] = []
    node: ir.Node | None = end
    reason = ""
    while node is not None and not reason:
        reason = _add(walk, node)
        if reason:
            break
        if len(walk.open) == 1:
            nodes, axes = tuple(walk.nodes[::-1]), dict(sorted(walk.axes.items()))
            tails.append(Tail(nodes, (end.outputs[0],), tuple(walk.open), axes))
        producers = [producer for value in walk.open if (producer := value.producer()) is not None]
        node = max(producers, key=place) if producers and len(walk.nodes) < _MOST_NODES else None
        if node is not None and _rounds(node) and len(node.outputs[0].uses()) + node.outputs[0].is_graph_output() > 1:
            node = None
    return tails, reason


def _rounds(node: ir.Node) -> bool:
    return rounds_to_integers(node) or is_thresholds(node)


def _dynamic_inputs(node: ir.Node) -> list[ir.Value] | str:
    """Return the inputs of an elementwise node that are not constant."""
    normalizes = _normalizes(node)
    if not (is_elementwise(node) or normalizes or _rounds(node)) or node.op_type in ("Cast", "BitCast"):
        return f"{node.op_type} is not elementwise"
    dynamic = [value for value in node.inputs if value is not None and not is_constant(value)]
    if not dynamic:
        return "its input is constant"
    if any(value.dtype != ir.DataType.FLOAT for value in (*dynamic, node.outputs[0])):
        return f"{node.op_type} is not of float32 throughout"
    if (normalizes or _rounds(node)) and dynamic != [node.inputs[0]]:
        return f"a parameter of {node.op_type} is computed"
    return dynamic


def _normalizes(node: ir.Node) -> bool:
    return (
        node.op_type == "BatchNormalization"
        and node.domain == ""
        and len(node.outputs) == 1
        and not node.attributes.get_int("training_mode", 0)
        and node.attributes.get_int("spatial", 1) == 1
    )


def _add(walk: _Walk, node: ir.Node) -> str:
    """Take a node into the tail, if there are not too many parameters to look at each; returns why not."""
    dynamic = _dynamic_inputs(node)
    if isinstance(dynamic, str):
        return dynamic
    result = node.outputs[0]
    if any(rank(value) is None for value in (*dynamic, result)):
        return "its shape is not known"
    if not all(same_shape(value, result) for value in dynamic) and not _keeps_shape(node, dynamic):
        return f"{node.op_type} changes the shape, or it is not known"
    found = _varying(node, dynamic, len(result.shape or ()))
    if isinstance(found, str):
        return found
    axes = walk.axes | found
    if math.prod(axes.values()) > _MOST_CHANNELS or (len(axes) == rank(result) and len(axes) > 1):
        return "its parameters are different for too many elements"
    walk.axes = axes
    walk.nodes.append(node)
    walk.open.pop(result, None)
    walk.open.update(dict.fromkeys(dynamic))
    return ""


def _keeps_shape(node: ir.Node, dynamic: list[ir.Value]) -> bool:
    """Tell whether no parameter can make a tensor larger, however its dimensions are called before and behind."""
    if len(dynamic) > 1:
        return False
    if _normalizes(node) or is_thresholds(node):
        return True
    arrays = [constant(value) for value in node.inputs if value is not None and value not in dynamic]
    return all(
        array is not None
        and array.ndim <= (rank(dynamic[0]) or 0)
        and all(size in (1, dimension(dynamic[0], axis - array.ndim)) for axis, size in enumerate(array.shape))
        for array in arrays
    )


def _varying(node: ir.Node, dynamic: list[ir.Value], length: int) -> dict[int, int] | str:
    """Return the axes, with their sizes, along which constant inputs vary."""
    if is_thresholds(node):
        found = Thresholds.of(node)
        return found if isinstance(found, str) else found.axes
    axes: dict[int, int] = {}
    for value in node.inputs:
        array = None if value is None or value in dynamic else constant(value)
        if array is None or array.size <= 1:
            continue
        if node.op_type == "BatchNormalization":
            axes[_PER_CHANNEL] = array.size
        else:
            axes |= {length - array.ndim + axis: size for axis, size in enumerate(array.shape) if size > 1}
    return "its parameters have a higher rank" if any(axis < 0 for axis in axes) else axes


def _is_monotone(node: ir.Node) -> bool:
    if is_thresholds(node):
        found = Thresholds.of(node)
        return not isinstance(found, str) and found.is_growing
    if sum(value is not None and not is_constant(value) for value in node.inputs) != 1:
        return False
    if node.op_type in _NOT_EVERYWHERE or not _slopes_upwards(node):
        return False
    if rounds_to_integers(node) or node.op_type == "BatchNormalization" or traits_of(node).monotone:
        return True
    if node.op_type == "Mul":
        return True
    if node.op_type == "Div":
        return is_constant(node.inputs[1])
    if node.op_type == "PRelu":
        slope = constant(node.inputs[1])
        return slope is not None and bool(np.all(slope >= 0))
    return False


def _slopes_upwards(node: ir.Node) -> bool:
    if node.op_type == "Selu":
        return node.attributes.get_float("alpha", 1.0) >= 0
    name, default = _SLOPES.get(node.op_type, ("", 0.0))
    return not name or node.attributes.get_float(name, default) >= 0
