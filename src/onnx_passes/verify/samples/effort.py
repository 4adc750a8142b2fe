"""How much a model computes, roughly and without running it, and so how much its samples may."""

from __future__ import annotations

import math
from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.constants import constant_tensor

_LITTLE = 2**20
"""Products and elements of one run; ONNX Runtime does as many in about a millisecond."""
_ELEMENT = 4
"""What an element of an input counts, as it is drawn and passes through several nodes."""
_FEW_NODES = 400
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
    fed = [[size if isinstance(size, int) and size > 0 else _UNKNOWN for size in value.shape or ()] for value in inputs]
    places = max((math.prod(sizes[2:]) if len(sizes) > 2 else max(sizes, default=1) for sizes in fed), default=1)
    effort = _ELEMENT * sum(map(math.prod, fed))
    for nodes, node in enumerate(all_nodes(model.graph)):
        if nodes > _FEW_NODES or effort > _LITTLE or node.op_type in _REPEATS:
            return False
        tensors = [constant_tensor(value) for value in node.inputs]
        if node.op_type in _SLIDES and tensors[1:2] == [None]:
            # Weights that are computed may be of any size.
            return False
        size = sum(tensor.size for tensor in tensors if tensor is not None)
        effort += size * (places if node.op_type in _SLIDES else 1)
    return effort <= _LITTLE
