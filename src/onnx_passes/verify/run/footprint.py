"""The memory that a run of a model takes, estimated from its shapes before it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.measure import count_bytes
from onnx_passes.core.walk import all_nodes

_UNKNOWN = 8
"""What a dynamic dimension counts."""
_TEXT = 64
"""Bytes that a text counts."""
_SHORT = frozenset((ir.DataType.FLOAT16, ir.DataType.BFLOAT16))
"""What is computed in float32, and held in both; of weights, one at a time."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of weights and of all results together; a result of unknown shape counts as much as the largest input."""

    weights: int
    results: int
    is_known: bool

    @property
    def bytes(self) -> int:
        """Return all of it."""
        return self.weights + self.results


def footprint(model: ir.Model, weights: int) -> Footprint:
    """Estimate what a run takes beside weights of so many bytes: more than is alive at once."""
    inputs = [_nbytes(value) for value in model.graph.inputs if not value.is_initializer()]
    results = [_nbytes(value) for node in all_nodes(model.graph) for value in node.outputs if value.name]
    largest = max(filter(None, inputs), default=0)
    total = sum(largest if size is None else size for size in (*inputs, *results))
    short = (value.const_value for value in model.graph.initializers.values() if value.dtype in _SHORT)
    widened = 2 * max((count_bytes(tensor) for tensor in short if tensor is not None), default=0)
    return Footprint(weights, total + widened, None not in results)


def _nbytes(value: ir.Value) -> int | None:
    if value.shape is None or value.dtype in (None, ir.DataType.UNDEFINED):
        return None
    sizes = [size if isinstance(size, int) else _UNKNOWN for size in value.shape]
    if value.dtype is ir.DataType.STRING:
        return _TEXT * math.prod(sizes)
    bits = value.dtype.bitwidth * (3 if value.dtype in _SHORT else 1)
    return -(-math.prod(sizes) * bits // 8)
