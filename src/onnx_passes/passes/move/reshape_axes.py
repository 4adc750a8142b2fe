"""Move Reshape and Flatten before a transposition: axes that are joined or split move together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import Permutation, permuted, reshape_target, transposed
from onnx_passes.graph.shapes import Dim, dims
from onnx_passes.passes.move.axes import AXES
from onnx_passes.rewrite.refusal import Rewritten, no


class _Size(NamedTuple):
    """A product of dimensions: a number, and names in order."""

    number: int
    names: tuple[str, ...]

    def times(self, dim: Dim) -> _Size | None:
        if isinstance(dim, int):
            return _Size(self.number * dim, self.names)
        return None if dim.value is None else _Size(self.number, tuple(sorted((*self.names, str(dim.value)))))


Groups = list[tuple[list[int], list[int]]]
"""Axes before and after a reshape with the same elements in the same order, without axes of size one."""


def groups_of(before: Sequence[Dim], after: Sequence[Dim]) -> Groups | None:
    """Pair the axes that a reshape joins or splits, as finely as possible; None if sizes do not determine them."""
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    found: Groups = []
    while left or right:
        mine, theirs, old, new = list[int](), list[int](), _Size(1, ()), _Size(1, ())
        while not mine or old != new:
            axes, sizes, taken = (left, before, mine) if _is_shorter(old, new) else (right, after, theirs)
            more = (old if taken is mine else new).times(sizes[axes[0]]) if axes else None
            if more is None:
                return None
            taken.append(axes.pop(0))
            old, new = (more, new) if taken is mine else (old, more)
        found.append((mine, theirs))
    return found


def _is_shorter(old: _Size, new: _Size) -> bool:
    return (len(old.names), old.number) <= (len(new.names), new.number)


def _reshape(op: Builder, node: ir.Node, x: ir.Value, perm: Permutation) -> Rewritten:
    sizes, after = dims(x), dims(node.outputs[0])
    if sizes is None or after is None:
        return no("the shape is not known", at=node)
    groups = groups_of(permuted(sizes, perm), after)
    if groups is None:
        return no("it is not known which axes are joined or split", at=node)
    groups.sort(key=lambda group: max(perm[axis] for axis in group[0]))
    moved = [axis for _, new in groups for axis in new]
    for axis, size in enumerate(after):
        if size == 1:
            moved.insert(moved.index(axis - 1) + 1 if axis else 0, axis)
    places = [perm[axis] for old, _ in groups for axis in old]
    if places != sorted(places):
        if moved == sorted(moved):
            return no("it joins axes that are not adjacent before the transposition", at=node)
        ones = [place for place in range(len(perm)) if place not in places]
        x = op.Transpose(x, perm=[*places, *ones])
    target = reshape_target(permuted(after, moved))
    if target is None:
        return no("several sizes are not known, or one is zero", at=node)
    reshaped = op.Reshape(x, np.array(target, np.int64))
    reshaped.shape = ir.Shape(permuted(after, moved))
    return transposed(op, reshaped, [moved.index(axis) for axis in range(len(moved))])


AXES.attach(dict.fromkeys(("Flatten", "Reshape"), _reshape))
