"""Convert sequences to images of one row, as FINN has per-channel thresholds and pixel sums for images only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.operators import Interface
from onnx_passes.graph.shapes import rank, static_shape
from onnx_passes.passes.export.thresholds import is_threshold
from onnx_passes.passes.integers.twins import Twins
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_SEQUENCE, _IMAGE = 3, 4
_PLACES = (0, 2, 3)
"""Positions of the axes of a sequence in an image."""


class RowImages(Twins):
    """Gives sequences ``[N, L, C]`` a twin ``[N, 1, L, C]``, from the first thresholds on that need one."""

    def form(self, node: ir.Node) -> ir.Value | str:
        """Build the result of a node on images, if it has a rule and its sizes are known."""
        rule = ROW_IMAGES.get(node)
        if rule is None or len(node.outputs) != 1 or static_shape(node.outputs[0]) is None:
            return "it has no form for images of one row"
        if _SEQUENCE not in (rank(node.outputs[0]), *(rank(value) for value in node.inputs if constant(value) is None)):
            return "it has no sequences"
        return rule(self, node)

    def restored(self, twin: ir.Value, old: ir.Value) -> ir.Value:
        """Return a sequence from its image; other values unchanged."""
        if rank(old) != _SEQUENCE:
            return twin
        sizes = static_shape(old)
        assert sizes is not None
        shaped(twin, lifted(sizes)).type = old.type
        twin.name = f"{old.name}_row"
        return self.op.Reshape(twin, np.array(sizes, np.int64))

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report nothing: sequences need no conversion elsewhere."""

    def image(self, value: ir.Value) -> ir.Value:
        """Return a sequence as an image, and other values unchanged."""
        held, sizes = constant(value), static_shape(value)
        if sizes is None or len(sizes) != _SEQUENCE:
            return value
        if held is not None:
            return self.op.initializer(held.reshape(lifted(held.shape)), f"{value.name}_row")
        return self.twin(value) or self.once(value, lambda: self._lifted(value, sizes))

    def _lifted(self, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
        made = self.op.Reshape(value, np.array(lifted(sizes), np.int64), _outputs=[f"{value.name}_row"])
        made.type = value.type
        return shaped(made, lifted(sizes))


def write_sequences(editor: Editor) -> None:
    """Convert sequences to images if thresholds vary by channel of a sequence."""
    rows = [static_shape(node.inputs[1]) for node in editor.graph if is_threshold(node) and _is_sequence(node)]
    if any(shape is not None and shape[0] > 1 for shape in rows):
        RowImages(editor).convert_all("image of one row")


def lifted(sizes: Sequence[int]) -> list[int]:
    """Return the sizes of an image of one row."""
    return [sizes[0], 1, *sizes[1:]]


def _is_sequence(node: ir.Node) -> bool:
    return rank(node.inputs[0]) == _SEQUENCE


RowImageRule = Callable[[RowImages, ir.Node], "ir.Value | str"]
"""Builds the result of a node on images of one row, or returns the reason why it cannot."""
ROW_IMAGES: Interface[RowImageRule] = Interface("row_image", "its equivalent for images of one row")


@ROW_IMAGES.of("MultiThreshold", domains=(GENERAL,))
def _thresholds(images: RowImages, node: ir.Node) -> ir.Value | str:
    x, thresholds = node.inputs
    if x is None or node.attributes.get_string("data_layout", "NWC") != "NWC":
        return "its channels are not last"
    return images.op.like(node, [images.image(x), thresholds], data_layout="NHWC")


def _alike(images: RowImages, node: ir.Node) -> ir.Value | str:
    """Build the node on images, as broadcasting and products look at the last axes."""
    if any(rank(value) is None or (rank(value) or 0) > _SEQUENCE for value in node.inputs):
        return "it combines them with tensors of higher rank"
    return images.op.like(node, [None if value is None else images.image(value) for value in node.inputs])


def _softmax(images: RowImages, node: ir.Node) -> ir.Value | str:
    axis = node.attributes.get_int("axis", -1) % _SEQUENCE
    return images.op.like(node, [images.image(_first(node))], axis=_PLACES[axis])


def _transpose(images: RowImages, node: ir.Node) -> ir.Value | str:
    perm = node.attributes.get_ints("perm")
    if perm is None or perm[0] != 0:
        return "it moves the first axis"
    return images.op.Transpose(images.image(_first(node)), perm=[0, 1, *(_PLACES[axis] for axis in perm[1:])])


def _concat(images: RowImages, node: ir.Node) -> ir.Value | str:
    axis = node.attributes.get_int("axis", 0) % _SEQUENCE
    return images.op.like(node, [images.image(value) for value in node.inputs if value is not None], axis=_PLACES[axis])


def _slice(images: RowImages, node: ir.Node) -> ir.Value | str:
    axes = constant(node.inputs[3]) if len(node.inputs) > 3 else None
    if axes is None:
        return "its axes are not given"
    moved = np.array([_PLACES[int(axis) % _SEQUENCE] for axis in axes.reshape(-1)], axes.dtype)
    given = node.inputs
    return images.op.like(node, [images.image(_first(node)), given[1], given[2], moved, *given[4:]])


def _reshape(images: RowImages, node: ir.Node) -> ir.Value | str:
    sizes = static_shape(node.outputs[0])
    assert sizes is not None
    target = lifted(sizes) if len(sizes) == _SEQUENCE else list(sizes)
    return images.op.Reshape(images.image(_first(node)), np.array(target, np.int64))


def _reduce_sum(images: RowImages, node: ir.Node) -> ir.Value | str:
    """Sum along the sequence and the single row, which is a sum over all pixels."""
    axes, sizes = constant(node.inputs[1]) if len(node.inputs) > 1 else None, static_shape(node.outputs[0])
    if axes is None or sizes is None or [int(axis) % _SEQUENCE for axis in axes.reshape(-1)] != [1]:
        return "it is not along the sequence"
    image = images.image(_first(node))
    total = images.op.ReduceSum(image, np.array([1, 2], np.int64), keepdims=1)
    shaped(total, [sizes[0], 1, 1, sizes[-1]]).type = image.type
    return total if len(sizes) == _SEQUENCE else images.op.Reshape(total, np.array(sizes, np.int64))


def _first(node: ir.Node) -> ir.Value:
    value = node.inputs[0]
    assert value is not None
    return value


ROW_IMAGES.attach(
    {
        **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Relu", "MatMul"), _alike),
        **dict.fromkeys(("Flatten", "Reshape"), _reshape),
        "Concat": _concat,
        "ReduceSum": _reduce_sum,
        "Slice": _slice,
        "Softmax": _softmax,
        "Transpose": _transpose,
    }
)
