"""Hoist selections, so that discarded elements are not computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer, integers, is_given
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.permutations import is_axis
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim, static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.move.forms import MovePass, exchange, operands, shaped
from onnx_passes.passes.move.steady import elementwise
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no
from onnx_passes.rewrite.rule import Rule


def _past_elementwise(*, steady: bool) -> list[Rule]:
    names = elementwise(steady=steady)
    return [
        exchange("Slice", names, _slice_operands, name="SliceOfElementwise"),
        exchange("Gather", names, _gather_operands, name="GatherOfElementwise"),
    ]


def _slice_operands(op: Builder, node: ir.Node, computed: ir.Node) -> Rewritten:
    data, others = operands(computed)
    if traits_of(computed).arity == 1:
        inner = shaped(op.like(node, [data[0], *node.inputs[1:]]), dims(node.outputs[0]))
        return op.like(computed, [inner, *others])
    whole = dims(computed.outputs[0])
    axes = None if whole is None else sliced_axes(node, len(whole))
    if whole is None or axes is None:
        return no("the axes are not known", at=node)
    sizes = dims(node.outputs[0])
    inputs = [_slice_operand(op, node, value, axes, whole, sizes) for value in data]
    refusal = next((value for value in inputs if isinstance(value, Refusal)), None)
    return op.like(computed, inputs) if refusal is None else refusal


def sliced_axes(node: ir.Node, length: int) -> list[int] | None:
    """Return the sliced axes counted from the end, as broadcasting aligns them; None if unknown."""
    if is_given(node, 3, "axes"):
        axes = integers(node, 3, "axes")
    else:
        starts = argument(node, 1)
        count = (len(integers(node, 1, "starts") or ()),) if starts is None else static_shape(starts)
        axes = None if not count else list(range(count[0]))
    if axes is None or not all(is_axis(axis, length) for axis in axes):
        return None
    return [axis % length - length for axis in axes]


def _has_own(value: ir.Value, axis: int, whole: tuple[Dim, ...]) -> bool | Refusal:
    """Return whether an operand varies along an axis, counted from the end, or is broadcast there."""
    sizes = dims(value)
    if sizes is None:
        return no("the shape of an operand is not known", at=value)
    if -axis > len(sizes):
        return False
    if same_dim(sizes[axis], whole[axis]):
        return True
    return False if sizes[axis] == 1 else no("it is not known whether an operand is broadcast", at=value)


def _slice_operand(
    op: Builder,
    node: ir.Node,
    value: ir.Value,
    axes: list[int],
    whole: tuple[Dim, ...],
    result: tuple[Dim, ...] | None,
) -> Rewritten:
    own = [_has_own(value, axis, whole) for axis in axes]
    refusal = next((answer for answer in own if isinstance(answer, Refusal)), None)
    if refusal is not None:
        return refusal
    if not any(own):
        return value
    sizes = list(dims(value) or ())
    for axis, has in zip(axes, own, strict=True):
        if has and result is not None:
            sizes[axis] = result[axis]
    arguments = [list(node.inputs[1:3]), list(node.inputs[4:5])]
    chosen = np.array([axis + len(sizes) for axis, has in zip(axes, own, strict=True) if has], np.int64)
    known = None if result is None else sizes
    if argument(node, 1) is None:
        lists = {key: integers(node, 1, key) for key in ("starts", "ends")}
        cut = {key: [n for n, has in zip(numbers or (), own, strict=True) if has] for key, numbers in lists.items()}
        return shaped(op.like(node, [value], axes=chosen, **cut), known)
    if not all(own):
        cut_arguments = [[_chosen(item, own) for item in part] for part in arguments]
        if any(item is None for part in cut_arguments for item in part):
            return no("an operand is broadcast along a sliced axis, and start or end are not constant", at=node)
        arguments = cut_arguments
    dtype = getattr(node.inputs[1], "dtype", None)
    if dtype is None:
        return no("the type of the start is not known", at=node)
    (starts, ends), steps = arguments
    return shaped(op.like(node, [value, starts, ends, chosen.astype(dtype.numpy()), *steps]), known)


def _chosen(value: Any, own: Sequence[Any]) -> ir.TensorProtocol | None:
    array = constant(value)
    return None if array is None else ir.Tensor(array[np.array([bool(has) for has in own])])


def _gather_operands(op: Builder, node: ir.Node, computed: ir.Node) -> Rewritten:
    data, others = operands(computed)
    indices, axis = dims(argument(node, 1)), integer(node, "axis", 0)
    whole = dims(computed.outputs[0] if len(data) > 1 else data[0]) or dims(computed.outputs[0])
    if indices is None or whole is None or axis is None or not is_axis(axis, len(whole)):
        return no("the axis, or a shape, is not known", at=node)
    axis = axis % len(whole) - len(whole)
    count = static_shape(argument(node, 1))
    size = whole[axis]
    if count is None or not isinstance(size, int) or not int(np.prod(count)) <= size:
        return no("there may be more indices than elements", at=node)
    if len(data) == 1:
        inner = shaped(op.like(node, [data[0], node.inputs[1]]), dims(node.outputs[0]))
        return op.like(computed, [inner, *others])
    own = [_has_own(value, axis, whole) for value in data]
    refusal = next((answer for answer in own if isinstance(answer, Refusal)), None)
    if refusal is not None:
        return refusal
    inputs: list[Any] = []
    for value, has in zip(data, own, strict=True):
        length = rank(value) or 0
        if has:
            inputs.append(op.like(node, [value, node.inputs[1]], axis=axis + length))
        elif -axis > length or len(indices) == 1:
            inputs.append(value)
        else:
            return no("an operand is broadcast along the axis, whose rank changes", at=value)
    return op.like(computed, inputs)


@passes.verify.equality
@passes.register("reorder")
class MoveSelectionUp(MovePass):
    """Hoist Slice and Gather towards the inputs, so that only selected elements are computed.

    Rewrites: ``Slice(f(x))`` → ``f(Slice(x))`` and ``Gather(f(x), i)`` → ``f(Gather(x, i))`` for elementwise operators,
              on each operand only along the axes on which it is not broadcast.
    Refuses:  results with other consumers; with several operands, unknown shapes and axes; more indices than elements;
              Relu of half precision in opset 18.
    Exactness: bit-exact; functions that round differently in other places are left to ``move-selection-up-rounding``.
    """

    moves = partial(_past_elementwise, steady=True)


@passes.verify.tolerance
@passes.register("reorder")
class MoveSelectionUpRounding(MovePass):
    """Hoist Slice and Gather above functions whose last bits depend on where an element lies in memory.

    Rewrites: as ``move-selection-up``, for transcendental functions, Max, Min and Where.
    Refuses:  the cases that ``move-selection-up`` refuses.
    Exactness: up to rounding, and the sign of zeros for Max, Min and Where.
    """

    moves = partial(_past_elementwise, steady=False)
