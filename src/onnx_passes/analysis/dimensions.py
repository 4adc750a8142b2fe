"""Dynamic dimensions: who has them, and numbers for them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph import annotations
from onnx_passes.graph.extents import size_of, symbols_of


def dynamic_inputs(graph: ir.Graph) -> dict[str, list[str]]:
    """Map the name of each dynamic dimension, ``?`` if it has none, to the inputs that have it."""
    found: dict[str, dict[str, None]] = {}
    for value in graph.inputs:
        for dim in value.shape or ():
            if not isinstance(dim, int):
                found.setdefault(dim.value or "?", {})[value.name or ""] = None
    return {name: list(inputs) for name, inputs in found.items()}


def require_known(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Refuse names that no dimension has."""
    known = {
        name
        for value in annotations.values(model.graph)
        for dim in value.shape or ()
        if not isinstance(dim, int)
        for name in (dim.value, *symbols_of(dim))
        if name is not None
    }
    for name in sizes:
        if name not in known:
            hint = did_you_mean(name, known) or (
                f"there are: {', '.join(sorted(known))}" if known else "the model has no dynamic dimensions"
            )
            raise UsageError(f"no dimension is called '{name}'", hint=hint)


def bind(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Put numbers for names of dimensions, everywhere and in place, also in what is computed from them."""
    if not sizes:
        return
    known: dict[str, int | ir.SymbolicDim] = {}
    for value in annotations.values(model.graph):
        if value.shape is None or value.shape.is_static():
            continue
        bound = [dim if isinstance(dim, int) else _bound(dim, sizes, known) for dim in value.shape]
        value.shape = ir.Shape(bound, denotations=[value.shape.get_denotation(i) for i in range(len(bound))])


def _bound(
    dim: ir.SymbolicDim, sizes: Mapping[str, int], known: dict[str, int | ir.SymbolicDim]
) -> int | ir.SymbolicDim:
    text = dim.value
    if text is None:
        return dim
    if text not in known:
        known[text] = size_of(dim, sizes)
    return known[text]
