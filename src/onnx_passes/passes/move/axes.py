"""Move operators with axes before a transposition of their input."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument, integer, integers, is_given
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.permutations import (
    Permutation,
    compacted,
    extended,
    inverse,
    is_axis,
    permuted,
    transposed,
    untransposed,
)
from onnx_passes.graph.shapes import dims, is_integral, rank, static_shape
from onnx_passes.graph.traits import is_product, operators, traits_of
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

Handler = Callable[[Builder, ir.Node, ir.Value, Permutation], Rewritten]
"""Builds ``Transpose(f(x))`` for a node ``f(Transpose(x))``, or refuses."""
AXES: Interface[Handler] = Interface(
    "axes",
    "how it moves before a transposition of its input",
    "onnx_passes.passes.move.image_axes",
    "onnx_passes.passes.move.quantizer_axes",
    "onnx_passes.passes.move.reshape_axes",
)

_SOFTMAX_OF_AXIS = 13
"""The first opset in which Softmax is along one axis; before, it was along the rows of a matrix."""


def elementwise(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    """Build an elementwise node on untransposed operands; others must be constant or have no axes that move."""
    if "broadcast" in node.attributes:
        return no("opset < 7 has no implicit broadcasting", at=node)
    count = traits_of(node).arity or len(node.inputs)
    data = [value for value in node.inputs[:count] if value is not None]
    ranks = [len(sizes) for value in data if (sizes := dims(value)) is not None]
    if len(ranks) != len(data):
        return no("a rank is not known", at=node)
    perm = extended(perm, max(ranks))
    inputs = [untransposed(value, perm) for value in data]
    if any(value is None for value in inputs):
        return no("an operand would have to be transposed", at=data[inputs.index(None)])
    sizes = dims(node.outputs[0])
    inner: ir.Value = op.like(node, [*inputs, *node.inputs[count:]])
    if sizes is not None:
        inner.shape = ir.Shape(permuted(sizes, inverse(perm)))
    return transposed(op, inner, perm)


def _axis(node: ir.Node, default: int, length: int) -> int | Refusal:
    axis = integer(node, "axis", default)
    if axis is None or not is_axis(axis, length):
        return no("the axis is not known", at=node)
    return axis % length


def _axes(node: ir.Node, index: int, length: int) -> list[int] | Refusal:
    given = integers(node, index, "axes")
    if given is None or not all(is_axis(axis, length) for axis in given):
        return no("the axes are not constant", at=node)
    return [axis % length for axis in given]


def _with_axes(op: Builder, node: ir.Node, x: ir.Value, axes: list[int]) -> ir.Value:
    """Build a node with other axes, as an attribute or an input, as in the original."""
    if "axes" in node.attributes:
        return op.like(node, [x, *node.inputs[1:]], axes=axes)
    return op.like(node, [x, np.array(axes, np.int64), *node.inputs[2:]])


def _reduction(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    keep, noop = integer(node, "keepdims", 1), integer(node, "noop_with_empty_axes", 0)
    axes = _axes(node, 1, len(perm)) if is_given(node, 1, "axes") else []
    if isinstance(axes, Refusal) or keep is None or noop is None:
        return no("the axes are not constant", at=node)
    if not axes:
        whole = op.like(node, [x, *node.inputs[1:]])
        return transposed(op, whole, perm) if noop else whole
    reduced = _with_axes(op, node, x, permuted(perm, axes))
    return transposed(op, reduced, _after_reduction(perm, axes, keep))


def _after_reduction(perm: Permutation, axes: list[int], keep: int) -> Permutation:
    if keep:
        return perm if len(axes) < len(perm) else sorted(perm)
    return compacted([old for axis, old in enumerate(perm) if axis not in axes])


def _search(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    keep, axis = integer(node, "keepdims", 1), _axis(node, 0, len(perm))
    if isinstance(axis, Refusal) or keep is None:
        return no("the axis is not known", at=node)
    found = op.like(node, [x], axis=perm[axis])
    return transposed(op, found, _after_reduction(perm, [axis], keep))


def _along(default: int) -> Handler:
    def along(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
        if node.op_type.endswith("max") and op.opset < _SOFTMAX_OF_AXIS:
            return no("opset < 13 computes it along the rows of a matrix", at=node)
        axis = _axis(node, default, len(perm))
        if isinstance(axis, Refusal):
            return axis
        return transposed(op, op.like(node, [x, *node.inputs[1:]], axis=perm[axis]), perm)

    return along


def _layer_norm(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    axis = _axis(node, -1, len(perm))
    if isinstance(axis, Refusal):
        return axis
    ranks = [rank(value) for value in node.inputs[1:] if value is not None]
    if any(length is None or length > len(perm) - axis for length in ranks):
        return no("scale or bias are not known to have only the normalized axes", at=node)
    if any(perm[place] != place for place in range(axis, len(perm))) or len(node.outputs) > 1:
        return no("normalized axes move, or the statistics are used", at=node)
    return transposed(op, op.like(node, [x, *node.inputs[1:]]), perm)


def _quantize(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    scale = rank(argument(node, 1))
    if scale is None or scale > 1 or integer(node, "block_size", 0) != 0:
        return no("the scale is not known to be per tensor or per axis", at=argument(node, 1))
    axis = _axis(node, 1, len(perm)) if scale else None
    if isinstance(axis, Refusal):
        return axis
    mapped = {} if axis is None else {"axis": perm[axis]}
    return transposed(op, op.like(node, [x, *node.inputs[1:]], **mapped), perm)


def _concat(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    axis = _axis(node, 1, len(perm))
    if isinstance(axis, Refusal):
        return axis
    parts = [None if value is None else untransposed(value, perm) for value in node.inputs]
    if any(part is None for part in parts):
        return no("an operand has not the same transposition", at=node.inputs[parts.index(None)])
    return transposed(op, op.like(node, parts, axis=perm[axis]), perm)


def _split(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    axis = _axis(node, 0, len(perm))
    if isinstance(axis, Refusal):
        return axis
    op.like(node, [x, *node.inputs[1:]], axis=perm[axis])
    return [transposed(op, part, perm) for part in op.nodes[-1].outputs]


def _slice(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    starts = argument(node, 1)
    if is_given(node, 3, "axes"):
        axes = _axes(node, 3, len(perm))
    else:
        count = static_shape(starts) if starts is not None else (len(integers(node, 1, "starts") or ()),)
        axes = list(range(count[0])) if count and count[0] <= len(perm) else no("the axes are not known", at=node)
    if isinstance(axes, Refusal):
        return axes
    mapped = permuted(perm, axes)
    if starts is None:
        return transposed(op, op.like(node, [x], axes=mapped), perm)
    if starts.dtype is None:
        return no("the type of the start is not known", at=starts)
    array = np.array(mapped, starts.dtype.numpy())
    return transposed(op, op.like(node, [x, *node.inputs[1:3], array, *node.inputs[4:]]), perm)


def _pad(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    pads = integers(node, 1, "pads")
    axes = _axes(node, 3, len(perm)) if is_given(node, 3, "axes") else list(range(len(perm)))
    if pads is None or isinstance(axes, Refusal) or len(pads) != 2 * len(axes):
        return no("pads or axes are not constant", at=node)
    before, after = [0] * len(perm), [0] * len(perm)
    for place, axis in enumerate(axes):
        before[perm[axis]], after[perm[axis]] = pads[place], pads[place + len(axes)]
    if "pads" in node.attributes:
        return transposed(op, op.like(node, [x], pads=[*before, *after]), perm)
    return transposed(op, op.like(node, [x, np.array([*before, *after], np.int64), *node.inputs[2:3]]), perm)


def _squeeze(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    if is_given(node, 1, "axes"):
        axes = _axes(node, 1, len(perm))
        if isinstance(axes, Refusal):
            return axes
        squeezed = _with_axes(op, node, x, sorted(permuted(perm, axes)))
    else:
        shape = static_shape(x)
        if shape is None:
            return no("the squeezed axes are not known", at=node)
        axes = [axis for axis, old in enumerate(perm) if shape[old] == 1]
        squeezed = op.like(node, [x])
    return transposed(op, squeezed, compacted([old for axis, old in enumerate(perm) if axis not in axes]))


def _unsqueeze(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    given = integers(node, 1, "axes")
    axes = None if given is None else _axes(node, 1, len(perm) + len(given))
    if axes is None or isinstance(axes, Refusal):
        return no("the axes are not constant", at=node)
    length = len(perm) + len(axes)
    old = [axis for axis in range(length) if axis not in axes]
    after = list(range(length))
    for place, axis in zip(old, perm, strict=True):
        after[place] = old[axis]
    return transposed(op, _with_axes(op, node, x, axes), after)


def _expand(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    target = integers(node, 1)
    if target is None:
        return no("the target is not constant", at=argument(node, 1))
    length = max(len(target), len(perm))
    whole = extended(perm, length)
    sizes = permuted([1] * (length - len(target)) + target, inverse(whole))
    return transposed(op, op.like(node, [x, np.array(sizes, np.int64)]), whole)


def _gather(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    axis, indices = _axis(node, 0, len(perm)), dims(argument(node, 1))
    if isinstance(axis, Refusal) or indices is None:
        return no("the axis, or the rank of the indices, is not known", at=node)
    at, more = perm[axis], len(indices) - 1
    after: Permutation = []
    for place, old in enumerate(perm):
        after.extend(range(at, at + len(indices)) if place == axis else [old if old < at else old + more])
    return transposed(op, op.like(node, [x, *node.inputs[1:]], axis=at), after)


EXTREMES = ("ReduceMax", "ReduceMin")
"""Reductions whose choice between NaN and zeros of both signs depends on the order in memory."""
_SUMS = tuple(name for name in operators("reduction") if name not in ("ArgMax", "ArgMin", *EXTREMES))

_BUILT_IN: dict[str, Handler] = {
    **dict.fromkeys((*EXTREMES, *_SUMS), _reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), _search),
    **dict.fromkeys(("Softmax", "LogSoftmax", "LpNormalization"), _along(-1)),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantize),
    "Concat": _concat,
    "Expand": _expand,
    "Gather": _gather,
    "LayerNormalization": _layer_norm,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
AXES.attach(_BUILT_IN)

UNSTEADY = (*_SUMS, "Softmax", "LogSoftmax", "LpNormalization", "LayerNormalization")
"""Operators that sum along axes, so that their last bits depend on the order in memory."""
STEADY = tuple(name for name in _BUILT_IN if name not in (*UNSTEADY, "Split"))


def is_join(node: ir.Node) -> bool:
    """Return whether a node has several data operands, all of which need the same transposition."""
    return traits_of(node).kind == "elementwise" or AXES.get(node) is _concat


def is_steady(node: ir.Node) -> bool:
    """Return whether the bits of a node do not depend on the order of its input in memory."""
    if traits_of(node).place_dependent or is_product(node) or (not node.domain and node.op_type in UNSTEADY):
        return False
    return node.domain != "" or node.op_type not in EXTREMES or is_integral(node.inputs[0])
