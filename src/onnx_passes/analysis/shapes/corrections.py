"""Where onnx_shape_inference claims more than an operator promises, or less than can be known: what to do about it.

It takes it for granted that dimensions of different names are equal where they meet in a broadcast, that inputs
which are not constant have their default, that a rounded-up pooling window always starts inside the image, that
quantized pooling keeps the size of an image, and that features of a vector are one. It says nothing of what Expand and
ConstantOfShape make of sizes that it could not follow, though their number is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

from onnx_passes.analysis.shapes.known_shapes import contradict
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.constants import constant
from onnx_passes.graph.extents import is_limited
from onnx_passes.graph.traits import operators

Correction = Callable[[ShapeInferenceContext, ir.Node, list[ir.Shape | None]], None]
"""Gets the shapes that the outputs had before: what was declared stays."""

_BROADCASTING = {*operators("elementwise", arity=2), *operators("elementwise", arity=0)} - {"PRelu"}
"""Operators whose inputs broadcast against each other; a slope broadcasts in one direction."""
_HIGHEST_RANK = 64


def _forget(ctx: ShapeInferenceContext, value: ir.Value, axes: Iterable[int], declared: ir.Shape | None) -> None:
    """Give dimensions back the name or number that they had before, or else a new name."""
    if value.shape is None:
        return
    dims = list(value.shape)
    for axis in axes:
        known = declared is not None and len(declared) == len(dims) and not declared.is_unknown_dim(axis)
        dims[axis] = declared[axis] if declared is not None and known else ctx.new_symbolic_dim()
    value.shape = ir.Shape(dims)


def _is_known(ctx: ShapeInferenceContext, node: ir.Node, index: int) -> bool:
    """Tell whether an optional input is absent or its elements are known."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value is None or ctx.get_symbolic_value(value) is not None


def _broadcast(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    _forget_unequal(ctx, node, declared, batch_only=False)


def _matmul(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    _forget_unequal(ctx, node, declared, batch_only=True)


def _forget_unequal(
    ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None], *, batch_only: bool
) -> None:
    output = node.outputs[0]
    shapes = [value.shape for value in node.inputs if value is not None and value.shape is not None]
    if output.shape is None or all(isinstance(dim, int) for dim in output.shape):
        return
    doubtful: list[int] = []
    for back in range(3 if batch_only else 1, len(output.shape) + 1):
        dims = {shape[-back] for shape in shapes if back <= len(shape)} - {1}
        if len(dims) > 1 and not any(isinstance(dim, int) for dim in dims):
            axis = len(output.shape) - back
            doubtful += [] if _settle(output, axis, dims) else [axis]
    _forget(ctx, output, doubtful, declared[0])


def _where(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    """Choose the elements of a vector where the condition is constant."""
    _broadcast(ctx, node, declared)
    condition, *others = node.inputs
    chosen = constant(condition)
    values = [None if value is None else ctx.get_symbolic_value(value) for value in others]
    if chosen is None or chosen.ndim != 1 or any(value is None or len(value) != chosen.size for value in values):
        return
    first, second = (value or [] for value in values)
    ctx.set_symbolic_value(
        node.outputs[0], [a if is_first else b for is_first, a, b in zip(chosen, first, second, strict=True)]
    )


def _settle(output: ir.Value, axis: int, dims: Iterable[int | ir.SymbolicDim]) -> bool:
    """Settle where a size meets itself and the lesser of itself and a number: they are equal, or it would be one."""
    kept = [dim for dim in dims if not any(is_limited(dim, other) for other in dims)]
    if len(kept) != 1 or output.shape is None:
        return False
    output.shape = ir.Shape([kept[0] if index == axis else dim for index, dim in enumerate(output.shape)])
    return True


def _sizes(ctx: ShapeInferenceContext, vector: ir.Value | None) -> list[int | ir.SymbolicDim] | None:
    """Return new names for the elements of a vector of which only the length is known."""
    length = vector.shape[0] if vector is not None and vector.shape is not None and len(vector.shape) == 1 else None
    if not isinstance(length, int) or length > _HIGHEST_RANK:
        return None
    return [ctx.new_symbolic_dim() for _ in range(length)]


def _constant_of_shape(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    vector, output = node.inputs[0], node.outputs[0]
    if vector is not None and output.shape is None:
        sizes = ctx.get_symbolic_value(vector) or _sizes(ctx, vector)
        output.shape = None if sizes is None else ir.Shape(sizes)


def _expand(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    value, target = node.inputs[0], node.inputs[1]
    output = node.outputs[0]
    sizes = None if target is None else ctx.get_symbolic_value(target)
    if value is None or value.shape is None:
        return
    if sizes is None and output.shape is None and (unknown := _sizes(ctx, target)) is not None:
        # A size that is not one stays.
        pairs = zip_longest(reversed(value.shape.dims), reversed(unknown))
        dims = [mine if new is None or (isinstance(mine, int) and mine != 1) else new for mine, new in pairs]
        output.shape = ir.Shape(dims[::-1])
    if output.shape is None or sizes is None:
        return
    doubtful: list[int] = []
    for back in range(1, min(len(value.shape), len(sizes)) + 1):
        mine, wanted = value.shape[-back], sizes[-back]
        if not isinstance(mine, int) and not isinstance(wanted, int) and mine != wanted:
            axis = len(output.shape) - back
            doubtful += [] if _settle(output, axis, (mine, wanted)) else [axis]
    _forget(ctx, output, doubtful, declared[0])


def _split(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    if not _is_known(ctx, node, 1):
        axis = node.attributes.get_int("axis", 0)
        for output, shape in zip(node.outputs, declared, strict=True):
            rank = 0 if output.shape is None else len(output.shape)
            _forget(ctx, output, [axis % rank] if rank else [], shape)


def _reshape(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    """Write a number that was found by arithmetic (``N*32/N``) as a number, not as the name of one."""
    shape = node.outputs[0].shape
    if shape is not None:
        node.outputs[0].shape = ir.Shape([_number(dim) for dim in shape])


def _number(dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
    return int(dim.value) if not isinstance(dim, int) and dim.value and dim.value.isdecimal() else dim


def _squeeze(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    value = node.inputs[0]
    no_axes = "axes" not in node.attributes and (len(node.inputs) < 2 or node.inputs[1] is None)
    dynamic = value is not None and value.shape is not None and value.shape.is_dynamic()
    if not _is_known(ctx, node, 1) or (no_axes and dynamic):
        node.outputs[0].shape = declared[0]


def _unique(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    value, axis = node.inputs[0], node.attributes.get_int("axis")
    if value is None or axis is None or declared[0] is not None:
        return
    node.outputs[0].shape = None if value.shape is None else value.shape.copy()
    _forget(ctx, node.outputs[0], [axis % len(value.shape)] if value.shape else [], None)


def _if(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    """Know nothing of a result of which a branch knows nothing; a declaration that a branch contradicts is false."""
    graphs = list(nested_graphs(node))
    for place, (output, claimed) in enumerate(zip(node.outputs, declared, strict=True)):
        shapes = [graph.outputs[place].shape for graph in graphs]
        if any(contradict(claimed, shape) for shape in shapes):
            output.shape = _common(ctx, shapes)
        elif None in shapes:
            output.shape = claimed


def _common(ctx: ShapeInferenceContext, shapes: Sequence[ir.Shape | None]) -> ir.Shape | None:
    """Return the shape with a new name for each dimension that is not the same in all; None if ranks differ."""
    known = [shape.dims for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(dims) for dims in known}) != 1:
        return None
    return ir.Shape([dims[0] if len(set(dims)) == 1 else ctx.new_symbolic_dim() for dims in zip(*known, strict=True)])


def _pad(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    output = node.outputs[0]
    if not _is_known(ctx, node, 3) and output.shape is not None:
        _forget(ctx, output, range(len(output.shape)), declared[0])


def _pool(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    if node.attributes.get_int("ceil_mode", 0):
        for output, shape in zip(node.outputs, declared, strict=True):
            spatial = range(2, len(output.shape or ()))
            _forget(ctx, output, [axis for axis in spatial if output.shape and output.shape.is_dynamic(axis)], shape)


def _shape_unknown(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    node.outputs[0].shape = declared[0]


def _global_pool(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    value, last = node.inputs[0], node.attributes.get_int("channels_last", 0)
    node.outputs[0].shape = declared[0]
    if value is not None and value.shape is not None and len(value.shape) > 2:
        batch, channels, ones = value.shape[0], value.shape[-1 if last else 1], [1] * (len(value.shape) - 2)
        ctx.set_shape(node.outputs[0], ir.Shape([batch, *ones, channels] if last else [batch, channels, *ones]))


def _features(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    """Take as many elements as there are indices, whatever their shape; those of a vector are a row."""
    shapes = [None if value is None else value.shape for value in node.inputs]
    node.outputs[0].shape = declared[0]
    if len(shapes) == 2 and shapes[0] is not None and shapes[1] is not None:
        sizes = [size for size in shapes[1] if size != 1]
        known = [size for size in sizes if isinstance(size, int)]
        several = len(sizes) > 1 and len(known) < len(sizes)
        count = ctx.new_symbolic_dim() if several else math.prod(known) if len(known) == len(sizes) else sizes[0]
        ctx.set_shape(node.outputs[0], ir.Shape([*(list(shapes[0])[:-1] or [1]), count]))


def _qgemm(ctx: ShapeInferenceContext, node: ir.Node, declared: list[ir.Shape | None]) -> None:
    zero_point = node.inputs[8] if len(node.inputs) > 8 else None
    if zero_point is not None and zero_point.dtype is not None and node.outputs[0].dtype == ir.DataType.FLOAT:
        node.outputs[0].type = ir.TensorType(zero_point.dtype)


CORRECTIONS: Mapping[tuple[str, str], Correction] = MappingProxyType(
    {
        **{("", operator): _broadcast for operator in _BROADCASTING},
        ("", "MatMul"): _matmul,
        ("", "MatMulInteger"): _matmul,
        ("", "ConstantOfShape"): _constant_of_shape,
        ("", "Expand"): _expand,
        ("", "Where"): _where,
        ("", "If"): _if,
        ("", "Pad"): _pad,
        ("", "Reshape"): _reshape,
        ("", "Split"): _split,
        ("", "Squeeze"): _squeeze,
        ("", "Unique"): _unique,
        ("", "AveragePool"): _pool,
        ("", "LpPool"): _pool,
        ("", "MaxPool"): _pool,
        ("ai.onnx.ml", "ArrayFeatureExtractor"): _features,
        ("com.microsoft", "QGemm"): _qgemm,
        ("com.microsoft", "QLinearAveragePool"): _shape_unknown,
        ("com.microsoft", "QLinearGlobalAveragePool"): _global_pool,
        ("com.microsoft", "QLinearReduceMean"): _shape_unknown,
    }
)
