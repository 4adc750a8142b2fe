"""Slices of one element whose axis is removed behind them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.arguments import integers, is_given
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.uses import is_only_read_by
from onnx_passes.rewrite.refusal import Refusal, no


def picked(squeeze: ir.Node, cut: ir.Node) -> tuple[int, int] | Refusal:
    """Return axis and index of the one element that a Slice takes, and whose axis a Squeeze removes."""
    if not is_only_read_by(cut.outputs[0], (squeeze,)):
        return no("others read the slice, too", at=cut)
    arguments = [integers(cut, 1, "starts"), integers(cut, 2, "ends")]
    arguments.append(integers(cut, 3, "axes") if is_given(cut, 3, "axes") else [0])
    arguments.append(integers(cut, 4) if is_given(cut, 4, "steps") else [1])
    known = [items for items in arguments if items is not None and len(items) == 1]
    if len(known) != len(arguments):
        return no("it is not one axis that is sliced, or not by constants", at=cut)
    [start], [end], [axis], [step] = known
    length, size = rank(cut.inputs[0]), dimension(cut.inputs[0], axis)
    if length is None or size is None:
        return no("the size of what is sliced is not known", at=cut)
    taken = range(size)[start:end]
    if step != 1 or len(taken) != 1:
        return no("it is not one element that is taken", at=cut)
    if _squeezed_axes(squeeze, length) != [axis % length]:
        return no("it is not the sliced axis alone that goes", at=squeeze)
    return axis % length, taken[0]


def _squeezed_axes(squeeze: ir.Node, length: int) -> list[int] | None:
    if is_given(squeeze, 1, "axes"):
        axes = integers(squeeze, 1, "axes")
        return None if axes is None else [axis % length for axis in axes]
    shape = static_shape(squeeze.inputs[0])
    return None if shape is None else [axis for axis, size in enumerate(shape) if size == 1]
