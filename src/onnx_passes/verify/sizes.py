"""Sizes of dynamic dimensions for generated samples, and where a value ends up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

import onnx_ir as ir

Sizes = Mapping[str, int]

_MOVES_DATA = {"Identity", "Cast", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Slice", "Tile"}
_WINDOWS = {"Conv", "MaxPool", "AveragePool", "Pad", "ConvInteger", "QLinearConv", "STFT"}
"""Operators that need room: images of some dozens of pixels, signals of some hundreds of values."""


def reached(model: ir.Model, value: ir.Value) -> Iterator[tuple[ir.Node, int]]:
    """Yield where the values of an input arrive, unchanged but for their place, calls of functions included."""
    todo, seen = [value], {value}
    while todo:
        for node, index in todo.pop().uses():
            yield node, index
            function = model.functions.get(node.op_identifier())
            if function is not None:
                onward = function.inputs[index : index + 1]
            elif node.domain == "" and (node.op_type == "Concat" or (node.op_type in _MOVES_DATA and index == 0)):
                onward = node.outputs
            else:
                continue
            todo += [value for value in onward if value not in seen]
            seen.update(onward)


def dimension_key(name: str, axis: int, dim: int | ir.SymbolicDim) -> str | None:
    """Return what a dynamic dimension is called; some exporters write -1 for an unknown one."""
    if isinstance(dim, int):
        return None if dim >= 0 else f"{name}[{axis}]"
    return dim.value or f"{name}[{axis}]"


def dynamic_dimensions(model: ir.Model, inputs: Mapping[str, ir.Value]) -> dict[str, int]:
    """Return the dynamic dimensions, each with the least size that the operators there are likely to accept."""
    found: dict[str, int] = {}
    for name, value in inputs.items():
        dims = cast("ir.Shape", value.shape).dims
        keys = [dimension_key(name, axis, dim) for axis, dim in enumerate(dims)]
        image = len(dims) == 4 and sum(key is not None for key in keys[1:]) >= 2
        if image or (any(keys[1:]) and any(node.op_type in _WINDOWS for node, _ in reached(model, value))):
            least = 32 if len(dims) >= 4 else 512
        else:
            least = 1
        for axis, key in enumerate(keys):
            if key is not None:
                found[key] = min(found.get(key, least), least if axis else 1)
    return found


def sizes_of_sample(found: Mapping[str, int], number: int, given: Mapping[str, int]) -> dict[str, int]:
    """Choose the sizes of dynamic dimensions in one sample."""
    sizes = {key: given.get(key, least * (1 + number % (8 if least == 1 else 3))) for key, least in found.items()}
    for key in found:
        # Exporters name dimensions after others, such as 'past + 1'; what they name must be there to be believed.
        if key not in given and re.fullmatch(r"[\w .+*()-]+", key) and re.search(r"[+*-]", key) and "**" not in key:
            try:
                dim = ir.SymbolicDim(key)
                size = dim.evaluate(sizes) if dim.free_symbols() <= sizes.keys() - {key} else None
            except (ValueError, TypeError):
                continue
            if isinstance(size, int) and size >= 0:
                sizes[key] = size
    return sizes


def shape_of(value: ir.Value, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of an input in one sample."""
    dims = cast("ir.Shape", value.shape).dims
    keys = [dimension_key(str(value.name), axis, dim) for axis, dim in enumerate(dims)]
    return tuple(cast("int", dim) if key is None else sizes[key] for key, dim in zip(keys, dims, strict=True))
