"""Arithmetic with dynamic dimensions is slow: of nodes that are alike, it is done for the first one only."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

Inference = Callable[[ShapeInferenceContext, ir.Node], None]

_BY_SHAPE = ("AveragePool", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool")
"""Operators whose result has a shape that follows from the shapes of inputs and from attributes."""
_BY_CONTENT = ("Expand", "Reshape", "Slice")
"""Operators whose result has a shape that follows from integers in their inputs, too."""


class _Inferred(NamedTuple):
    dims: tuple[int | ir.SymbolicDim, ...]
    dtype: ir.DataType | None
    elements: tuple[int | ir.SymbolicDim, ...] | None


def remember(registry: OpShapeInferenceRegistry) -> None:
    """Let the inference of operators that calculate with dimensions remember what it found, within one run."""
    for operator in (*_BY_SHAPE, *_BY_CONTENT):
        for version in registry.version_boundaries("", operator):
            infer = registry.get("", operator, version=version)
            if infer is not None:
                remembering = _remembering(infer, by_content=operator in _BY_CONTENT)
                registry.register("", operator, since_version=version)(remembering)


def _remembering(infer: Inference, *, by_content: bool) -> Inference:
    runs: WeakKeyDictionary[ShapeInferenceContext, dict[Hashable, _Inferred]] = WeakKeyDictionary()

    def remembering(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        key = _key(ctx, node, by_content=by_content)
        if key is None:
            infer(ctx, node)
            return
        output, known = node.outputs[0], runs.setdefault(ctx, {})
        found = known.get(key)
        if found is not None:
            ctx.set_shape_and_dtype(output, ir.Shape(found.dims), found.dtype)
            if found.elements is not None:
                ctx.set_symbolic_value(output, list(found.elements))
            return
        infer(ctx, node)
        if output.shape is not None and _symbols(output.shape) <= _symbols_read(ctx, node):
            elements = ctx.get_symbolic_value(output) if len(output.shape) <= 1 else None
            known[key] = _Inferred(output.shape.dims, output.dtype, None if elements is None else tuple(elements))

    return remembering


def _key(ctx: ShapeInferenceContext, node: ir.Node, *, by_content: bool) -> Hashable | None:
    """Return what the result follows from, if it is worth remembering: dynamic, and nothing is declared."""
    first = node.inputs[0] if node.inputs else None
    if first is None or first.shape is None or first.shape.is_static() or len(node.outputs) != 1:
        return None
    if node.outputs[0].shape is not None or node.outputs[0].type is not None:
        return None
    parts: list[Hashable] = []
    for value in node.inputs:
        if value is None:
            parts.append(None)
            continue
        elements = ctx.get_symbolic_value(value) if by_content else None
        dims = None if value.shape is None else value.shape.dims
        parts.append((value.dtype, dims, None if elements is None else tuple(elements)))
    for attribute in node.attributes.values():
        if attribute.is_ref():
            return None
        parts.append((attribute.name, repr(attribute.value)))
    return tuple(parts)


def _symbols_read(ctx: ShapeInferenceContext, node: ir.Node) -> set[str]:
    """Collect the names in what a node reads: any other in its result is one that was made up for it."""
    found: set[str] = set()
    for value in node.inputs:
        if value is not None:
            found |= _symbols(value.shape or ())
            found |= _symbols(ctx.get_symbolic_value(value) or ())
    return found


def _symbols(dims: ir.Shape | list[int | ir.SymbolicDim] | tuple[()]) -> set[str]:
    return {name for dim in dims if isinstance(dim, ir.SymbolicDim) for name in dim.free_symbols()}
