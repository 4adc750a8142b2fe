"""The memory that a run of a model takes, estimated from its shapes before it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes

_UNKNOWN = 8
"""What a dynamic dimension counts."""


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
    return Footprint(weights, total, None not in results)


def _nbytes(value: ir.Value) -> int | None:
    if value.shape is None or value.dtype is None:
        return None
    sizes = [size if isinstance(size, int) else _UNKNOWN for size in value.shape]
    return -(-math.prod(sizes) * value.dtype.bitwidth // 8)
