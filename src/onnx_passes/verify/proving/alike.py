"""Computations that are alike, as in layers of a network: what running one has shown holds for another."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.verify.proving.sides import Side, shared_sources

_LONGEST = 256
"""Bytes of a constant that is written down; what holds more is like nothing else."""


def written(sides: Sequence[Side], arrays: Sequence[np.ndarray]) -> Hashable | None:
    """Write down all that decides what sides compute of arrays for their sources; None if that is long."""
    places: dict[ir.Value, int] = {value: place for place, value in enumerate(shared_sources(sides))}
    lines: list[Hashable] = [(value.dtype, len(value.shape) if value.shape is not None else None) for value in places]
    for side in sides:
        for node in side.nodes:
            read = [_read(value, places) for value in node.inputs]
            if None in read or any(attribute.type in _LARGE for attribute in node.attributes.values()):
                return None
            attributes = sorted((name, str(given.type), repr(given.value)) for name, given in node.attributes.items())
            lines.append((*node.op_identifier(), node.version, tuple(attributes), tuple(read)))
            for value in node.outputs:
                places.setdefault(value, len(places))
                lines.append((places[value], value.dtype, None if value.shape is None else len(value.shape)))
        results = [_read(value, places) for value in side.results]
        if None in results:
            return None
        lines.append(tuple(results))
    lines += [_contents(array) for array in arrays]
    return None if None in lines else tuple(lines)


_LARGE = frozenset(
    {
        ir.AttributeType.TENSOR,
        ir.AttributeType.TENSORS,
        ir.AttributeType.SPARSE_TENSOR,
        ir.AttributeType.SPARSE_TENSORS,
        ir.AttributeType.GRAPH,
        ir.AttributeType.GRAPHS,
    }
)


def _read(value: ir.Value | None, places: dict[ir.Value, int]) -> Hashable | None:
    if value is None:
        return "nothing"
    tensor = constant_tensor(value)
    if value in places:
        return places[value]
    return None if tensor is None or tensor.nbytes > _LONGEST else _contents(tensor.numpy())


def _contents(array: np.ndarray) -> Hashable | None:
    if array.nbytes > _LONGEST or array.dtype.kind == "O":
        return None
    return array.dtype, array.shape, array.tobytes()
