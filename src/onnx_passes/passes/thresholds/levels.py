"""The levels of quantizers without scale and zero point, and of thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.types import smallest_for
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.numbers.rounding import Edge
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS, Thresholds, is_thresholds, level_values
from onnx_passes.passes.thresholds.tail import Tail

NOT_A_NUMBER = -1
"""The index of NaN among levels."""


@dataclass(frozen=True)
class Levels:
    """The levels ``scale * k + bias`` for ``k`` from 0 to ``steps``, and the name of their data type, if known.

    ``domain`` is the domain of an existing MultiThreshold.
    """

    steps: int
    scale: float
    bias: float
    datatype: str = ""
    domain: str = COUNTING_DOMAINS[0]

    @cached_property
    def values(self) -> np.ndarray:
        """Return all levels, as computed in float32."""
        return level_values(self.scale, self.bias, self.steps)

    def places(self, results: np.ndarray) -> np.ndarray:
        """Return the index of the level of each result."""
        return np.where(np.isnan(results), NOT_A_NUMBER, np.searchsorted(self.values, results))


def levels_of(node: ir.Node) -> Levels | str:
    """Return the levels of a quantizer or of thresholds, or the reason why they are not known."""
    if is_thresholds(node):
        return _counted(node)
    quantizer = quantizer_of(node)
    if quantizer is None:
        return f"{node.op_type} is not a quantizer"
    found = quantizer.levels(node)
    if isinstance(found, str):
        return found
    datatype = found.datatype or str(smallest_for(found.low, found.high))
    return Levels((found.high - found.low) // found.step, float(found.step), float(found.low), datatype)


class Edges(NamedTuple):
    """Decision boundaries of the levels of a chain, from the second on, and the nodes before its quantizer."""

    edges: tuple[Edge, ...]
    before: tuple[ir.Node, ...]


def edges_of(tail: Tail, levels: Levels) -> Edges | None:
    """Return the decision boundaries of a chain that ends with a quantizer, or a clipped one; None for other chains."""
    for length in (1, 2):
        node = tail.nodes[-length] if length <= len(tail.nodes) else None
        quantizer = None if node is None else quantizer_of(node)
        if node is not None and quantizer is not None:
            wanted = [int(levels.bias + levels.scale * step) for step in range(1, levels.steps + 1)]
            found = [edge for level in wanted if (edge := quantizer.edge(node, level)) is not None]
            return Edges(tuple(found), tail.nodes[:-length]) if len(found) == len(wanted) else None
    return None


def clipped(node: ir.Node, levels: Levels) -> tuple[ir.Node, Levels]:
    """Return the Clip that alone reads a quantizer, with the levels it keeps; else the given node and levels."""
    result = node.outputs[0]
    users = list(result.consumers())
    if len(users) != 1 or result.is_graph_output() or levels.scale != 1:
        return node, levels
    user = users[0]
    if user.op_type != "Clip" or user.domain != "" or len(user.inputs) != 3:
        return node, levels
    low, high = (_number(value) for value in user.inputs[1:])
    if low is None or high is None:
        return node, levels
    least, most = max(low, levels.bias), min(high, levels.bias + levels.steps)
    if not (least.is_integer() and most.is_integer() and least < most):
        return node, levels
    return user, Levels(int(most - least), 1.0, least, str(smallest_for(int(least), int(most))))


def _number(value: ir.Value | None) -> float | None:
    array = constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def _counted(node: ir.Node) -> Levels | str:
    found = Thresholds.of(node)
    if isinstance(found, str):
        return found
    amount = found.rows.shape[1]
    known = datatype_of(node.outputs[0])
    datatype = node.attributes.get_string("out_dtype", None) or ("" if known is None else str(known))
    if found.weights is None:
        levels = Levels(amount, found.scale, found.bias, datatype, node.domain)
        return levels if (np.diff(levels.values) > 0).all() else "its levels do not increase with the count"
    if not found.is_in_integers:
        return "its weights are not integers"
    down = np.minimum(found.weights, 0).sum(axis=1).min(initial=0)
    up = np.maximum(found.weights, 0).sum(axis=1).max(initial=0)
    return Levels(int(up - down), 1.0, float(found.bias + down), datatype, node.domain)
