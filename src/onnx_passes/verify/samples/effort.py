"""How much a model computes, roughly and without running it, and so how much its samples may."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant_tensor

_LITTLE = 2**20
"""Products and elements of one run; ONNX Runtime does as many in about a millisecond."""
_ELEMENT = 4
"""What an element of an input counts, as it is drawn and passes through several nodes."""
_FEW_NODES = 400
_MUCH = 2**23
"""What a single sample of larger sizes may cost."""
_MANY_NODES = 2000
WIDE = (130, 66, 34, 18)
"""Sizes beyond what rewrites take for large: 128, 64, 32, 16."""
_SLIDES = frozenset({"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "LSTM", "GRU", "RNN"})
_REPEATS = frozenset({"Loop", "Scan"})
_UNKNOWN = 8
"""What a dynamic dimension counts."""


_SECONDS = 0.01
_SECONDS_PER_NODE = 4e-5
"""A tenth of what it takes to load, simplify and save a model: samples run again after passes, and piece by piece."""


def seconds_for_samples(model: ir.Model, effort: float) -> float:
    """Return the seconds that one round of runs on samples may take, beyond the one that there is always."""
    return effort * (_SECONDS + _SECONDS_PER_NODE * sum(1 for _ in all_nodes(model.graph)))


def is_small(model: ir.Model, inputs: Iterable[ir.Value]) -> bool:
    """Tell whether a model runs in about a millisecond."""
    fed = [_sizes(value, _UNKNOWN) for value in inputs]
    places = max((math.prod(sizes[2:]) if len(sizes) > 2 else max(sizes, default=1) for sizes in fed), default=1)
    effort = _ELEMENT * sum(map(math.prod, fed))
    for nodes, (sliding, still) in enumerate(_weights(model)):
        if nodes > _FEW_NODES or effort > _LITTLE:
            return False
        effort += sliding * places + still
    return effort <= _LITTLE


def affordable_size(model: ir.Model, inputs: Sequence[ir.Value]) -> int:
    """Return the largest size of all dynamic dimensions at which a model still runs quickly; 0 if none is."""
    weights, nodes = 0.0, 0
    for nodes, (sliding, still) in enumerate(_weights(model)):
        weights += sliding + still
        if nodes > _MANY_NODES or weights > _MUCH:
            return 0
    for size in WIDE:
        fed = [_sizes(value, size) for value in inputs]
        # At each place of a signal or an image, and in each row that is multiplied by a matrix, all weights may count.
        places = (math.prod(sizes[:1] + sizes[2:]) if len(sizes) > 2 else math.prod(sizes) for sizes in fed)
        if weights * max(places, default=1) / _ELEMENT + nodes * sum(map(math.prod, fed)) <= _MUCH:
            return size
    return 0


def _sizes(value: ir.Value, unknown: int) -> list[int]:
    return [size if isinstance(size, int) and size > 0 else unknown for size in value.shape or ()]


def _weights(model: ir.Model) -> Iterator[tuple[float, float]]:
    """Yield, node by node, how many weights slide over an input, and how many do not; infinite if nobody knows."""
    for node in all_nodes(model.graph):
        tensors = [constant_tensor(value) for value in node.inputs]
        slides = node.op_type in _SLIDES
        # Weights that are computed may be of any size.
        unknown = node.op_type in _REPEATS or (slides and tensors[1:2] == [None])
        size = math.inf if unknown else sum(tensor.size for tensor in tensors if tensor is not None)
        yield (size, 0) if slides else (0, size)
