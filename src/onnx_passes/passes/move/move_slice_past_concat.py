"""Hoist Slice above Concat, without the operands of which nothing is selected."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, integer, integers, is_given
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import is_axis
from onnx_passes.graph.shapes import dimension, rank
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.passes.move.forms import MovePass, exchange
from onnx_passes.passes.move.move_selection_up import sliced_axes
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule


def _past_concat(op: Builder, node: ir.Node, concat: ir.Node) -> Rewritten:
    length = rank(concat.outputs[0])
    axis = integer(concat, "axis", 1)
    axes = None if length is None else sliced_axes(node, length)
    if length is None or axes is None or axis is None or not is_axis(axis, length):
        return no("the axes are not known", at=node)
    axis = axis % length - length
    if axis not in axes or axes.count(axis) > 1:
        return no("the concatenated axis is not sliced", at=node)
    place = axes.index(axis)
    starts, ends = integers(node, 1, "starts"), integers(node, 2, "ends")
    steps = integers(node, 4) if is_given(node, 4, "steps") else [1] * len(axes)
    sizes = [dimension(value, axis) for value in concat.inputs]
    if starts is None or ends is None or steps is None or steps[place] != 1 or None in sizes:
        return no("the range, or the size of an operand, is not known, or the range has steps", at=node)
    known = [size for size in sizes if size is not None]
    start, end, _ = slice(starts[place], ends[place]).indices(sum(known))
    borders = np.cumsum([0, *known])
    kept = [i for i, size in enumerate(known) if size and borders[i] < end and borders[i + 1] > start]
    parts = concat.inputs[kept[0] : kept[-1] + 1] if kept else ()
    if start >= end or len(parts) in (0, len(known)):
        return no("the slice is empty, or selects from every operand", at=node)
    whole = concat.outputs[0]
    if len(parts) > 1 and is_used_elsewhere(whole):
        return no("the concatenation is used elsewhere", at=whole)
    joined = parts[0] if len(parts) == 1 else op.like(concat, parts)
    offset = int(borders[kept[0]])
    starts[place], ends[place] = start - offset, end - offset
    if argument(node, 1) is None:
        return op.like(node, [joined], starts=starts, ends=ends)
    dtype = getattr(node.inputs[1], "dtype", None)
    if dtype is None:
        return no("the type of the start is not known", at=node)
    changed = [np.array(numbers, dtype.numpy()) for numbers in (starts, ends)]
    return op.like(node, [joined, *changed, *node.inputs[3:]])


def _rules() -> list[Rule]:
    return [exchange("Slice", "Concat", _past_concat, forks="duplicate", name="SliceOfConcat")]


@passes.verify.equality
@passes.register("reorder")
class MoveSlicePastConcat(MovePass):
    """Drop the operands of a Concat from which a Slice selects nothing.

    Rewrites: ``Slice(Concat(a, b, c))`` → ``Slice(Concat(a, b))`` or ``Slice(a)``, if nothing else is selected.
    Refuses:  unknown ranges and sizes; ranges with steps; empty slices; slices from every operand; a concatenation with
              other consumers, unless one operand is enough.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        """g (float[2] a, float[3] b, float[N] y) => (float[M] z) <int64[1] s = {2}, int64[1] e = {4}> {
            j = Concat <axis = 0> (a, b) z = Slice (j, s, e)
        }""",
        """g (float[2,2] a, float[2,3] b, float[2,1] c) => (float[M,K] z)
            <int64[2] s = {-9,0}, int64[2] e = {4,9}, int64[2] axes = {-1,0}> {
            j = Concat <axis = 1> (a, b, c) z = Slice (j, s, e, axes)
        }""",
    )
    moves = partial(_rules)
