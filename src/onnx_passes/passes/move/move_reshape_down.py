"""Sink operators that keep the order of elements: Reshape, Flatten, Squeeze and Unsqueeze."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import Dim, dims, same_dim, same_shape, static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.passes.move.forms import MovePass, exchange, is_forked, operands, shaped, slots
from onnx_passes.passes.move.steady import UNSTEADY, elementwise
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def _past(op: Builder, node: ir.Node, reshape: ir.Node) -> Rewritten:
    moved, x = reshape.outputs[0], reshape.inputs[0]
    if x is None or is_forked(moved, node):
        return no("the reshaped value is used elsewhere", at=moved)
    if "broadcast" in node.attributes:
        return no("opset < 7 has no implicit broadcasting", at=node)
    data, others = operands(node)
    inputs = [x if value is moved else _reshaped_back(value, x, moved) for value in data]
    if any(value is None for value in inputs):
        return no("an operand is not known to broadcast before the reshape", at=data[inputs.index(None)])
    inner = shaped(op.like(node, [*inputs, *others]), dims(x))
    return op.like(reshape, [inner, *reshape.inputs[1:]])


def _reshaped_back(value: ir.Value, x: ir.Value, moved: ir.Value) -> ir.Value | ir.TensorProtocol | None:
    """Return the operand to combine with ``x`` instead of ``value`` with the reshaped ``x``; None if unknown."""
    sizes, before, after = dims(value), dims(x), dims(moved)
    if sizes == ():
        return value
    if sizes is None or before is None or after is None or len(sizes) > len(after):
        return None
    tensor = constant_tensor(value)
    if all(size == 1 for size in sizes):
        if len(sizes) <= len(before):
            return value
        return None if tensor is None else _constant(tensor, ())
    if len(sizes) <= len(before) and _keeps_last_axes(sizes, before, after):
        return value
    producer = value.producer()
    if producer is not None and traits_of(producer).kind == "movement" and producer.op_type in RESHAPES:
        y = producer.inputs[0]
        return y if same_shape(x, y) and same_shape(moved, value) else None
    shape = static_shape(x)
    if tensor is None or shape is None or not same_shape(moved, value):
        return None
    return _constant(tensor, shape)


def _keeps_last_axes(sizes: Sequence[Dim], before: Sequence[Dim], after: Sequence[Dim]) -> bool:
    """Return whether a reshape keeps the last axes, down to the first along which a value varies."""
    first = next(axis for axis, size in enumerate(sizes) if size != 1)
    axes = range(first - len(sizes), 0)
    return all(same_dim(before[axis], after[axis]) and sizes[axis] in (1, before[axis]) for axis in axes)


def _constant(tensor: ir.TensorProtocol, shape: tuple[int, ...]) -> ir.TensorProtocol | None:
    if tensor.dtype is ir.DataType.STRING:
        return None
    return ir.Tensor(tensor.numpy().reshape(shape), dtype=tensor.dtype)


def _past_each(*, steady: bool) -> list[Rule]:
    """Make the rules: with one operand every element keeps its position in memory, and thereby its bits."""
    names = [name for name in elementwise() if (name not in UNSTEADY or traits_of(name).arity == 1) is steady]
    return [
        exchange(name, RESHAPES, _past, slot=slot, forks="duplicate")
        for name in names
        for slot in (range(1) if name == "PRelu" else slots(name))
    ]


@passes.verify.equality
@passes.register("reorder")
class MoveReshapeDown(MovePass):
    """Sink Reshape, Flatten, Squeeze and Unsqueeze towards the outputs, where they merge.

    Rewrites: ``f(Reshape(x))`` → ``Reshape(f(x))`` for elementwise operators, if each other operand has a single
              element, has only trailing axes that the reshape keeps, has the same reshape, or is a constant of the same
              shape (which is reshaped back).
    Refuses:  a reshape with other consumers, unless these only join it with results of this consumer; operands that may
              widen the result; Relu of half precision in opset 18.
    Exactness:bit-exact; the order of elements stays. Operators that round differently, or lose the sign of zeros, when
              they broadcast differently are left to ``move-reshape-down-rounding``.
    """

    moves = partial(_past_each, steady=True)


@passes.verify.tolerance
@passes.register("reorder")
class MoveReshapeDownRounding(MovePass):
    """Sink reshapes below operators whose last bits depend on how they broadcast.

    Rewrites: as ``move-reshape-down``, for Max, Min, Pow and Where.
    Refuses:  the cases that ``move-reshape-down`` refuses; Pow of integers.
    Exactness: up to rounding, and the sign of zeros for Max, Min and Where.
    """

    moves = partial(_past_each, steady=False)
