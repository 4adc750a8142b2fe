"""Lower convolutions to matrix products on channels-last images, as FINN requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.tensor_types import set_sparsity
from onnx_passes.graph.traits import is_product
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.range import Range
from onnx_passes.passes.integers.containers import held_integers, is_exact_product
from onnx_passes.passes.layout.images import ChannelsLast, ChannelsLastForm, to_last
from onnx_passes.passes.move.forms import shaped
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.refusal import Refusal, no

_IMAGE = 4
_ROUNDS = "it is not of integers, so that a matrix product might round differently"
_WINDOWS = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}


class FinnImages(ChannelsLast):
    """Converts images to channels last where a convolution of integers is lowered, or a later node profits."""

    def __init__(self, editor: Editor, ranges: Mapping[ir.Value, Range]) -> None:
        super().__init__(editor, exact=True)
        self._in_integers = {node for node in editor.graph if _is_in_integers(node, ranges)}
        self._reasons = {node: _why_not(node, ranges) for node in editor.graph if _is_conv(node)}
        self._forms = {
            ("", "Conv"): ChannelsLastForm(self._lowered),
            ("", "ConvTranspose"): ChannelsLastForm(self._transposed),
            ("", "MaxPool"): ChannelsLastForm(_max_pool, starts=False),
        }

    def form(self, node: ir.Node) -> ChannelsLastForm | None:
        """Return the form for which FINN has a layer: matrix products, and its own pooling."""
        return self._forms.get((node.domain, node.op_type))

    def is_exact(self, node: ir.Node) -> bool:
        """Return whether a node gives the same bits in another order, as sums of integers do."""
        return node in self._in_integers or super().is_exact(node)

    def note_refusal(self, node: ir.Node, reason: str) -> None:
        """Report a convolution that is not lowered."""
        self.editor.context.note(f"{name_of(node)} stays a convolution: {reason}")

    def _lowered(self, _: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
        return no(self._reasons[node], at=node) if self._reasons[node] else self._conv(node)

    def _conv(self, node: ir.Node) -> ir.Value:
        x, w = node.inputs[0], node.inputs[1]
        weights, bias = constant(w), constant(node.inputs[2]) if len(node.inputs) > 2 else None
        assert x is not None
        assert w is not None
        assert weights is not None
        groups = node.attributes.get_int("group", 1)
        sizes = static_shape(node.outputs[0])
        assert sizes is not None
        windows = {name: list(node.attributes.get_ints(name) or given) for name, given in _WINDOWS.items()}
        rows = self._rows(x, list(weights.shape[2:]), sizes[2:], depthwise=groups > 1, **windows)
        matrix = self.op.initializer(_matrix(weights, groups), f"{w.name}_matrix")
        if groups > 1:
            set_sparsity(matrix, {"dw": {"kernel_shape": list(weights.shape[2:])}})
        found = shaped(self.op.MatMul(rows, matrix), [sizes[axis] for axis in to_last(_IMAGE)])
        return found if bias is None else self.op.Add(found, bias.reshape(1, 1, 1, -1))

    def _transposed(self, _: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
        """Compute patches by a convolution, and tile them by a transposition between reshapes, as a layer of FINN."""
        found = patches_of(node) if node in self._in_integers else _ROUNDS
        if isinstance(found, str):
            return no(found, at=node)
        x, w = node.inputs[0], node.inputs[1]
        shape, result = static_shape(x), static_shape(node.outputs[0])
        assert x is not None
        assert w is not None
        assert shape is not None
        assert result is not None
        batch, features, *extent = result
        (high, wide), kernel = found.size, list(found.filters.shape[2:])
        down, across = extent[0] // high, extent[1] // wide
        rows = self._rows(x, kernel, (down, across), pads=found.pads)
        matrix = self.op.initializer(_matrix(found.filters, 1), f"{w.name}_matrix")
        patches = shaped(self.op.MatMul(rows, matrix), [batch, down, across, len(found.filters)])
        apart = [batch, down, across, high, wide, features]
        parts = shaped(self.op.Reshape(patches, np.array(apart, np.int64)), apart)
        order = [0, 1, 3, 2, 4, 5]
        turned = shaped(self.op.Transpose(parts, perm=order), [apart[axis] for axis in order])
        image = shaped(
            self.op.Reshape(turned, np.array([batch, *extent, features], np.int64)), [batch, *extent, features]
        )
        bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        return image if bias is None else self.op.Add(image, bias.reshape(1, 1, 1, -1))

    def _rows(
        self,
        x: ir.Value,
        kernel: list[int],
        places: Sequence[int],
        *,
        strides: Sequence[int] = (1, 1),
        pads: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        depthwise: bool = False,
    ) -> ir.Value:
        """Return the elements of each window as one row: the image itself for windows of one pixel."""
        image, shape = self.last(x), static_shape(x)
        assert shape is not None
        if kernel == [1, 1] and list(strides) == [1, 1] and not any(pads):
            return image
        batch, channels, height, width = shape
        rows = self.op.Im2Col(
            image,
            _domain=GENERAL,
            stride=list(strides),
            kernel_size=kernel,
            pad_amount=list(pads),
            dilations=list(dilations),
            input_shape=f"({batch},{height},{width},{channels})",
            depthwise=int(depthwise),
            pad_value=0,
        )
        rows.name = f"{x.name}_rows"
        rows.type = ir.TensorType(x.dtype or ir.DataType.FLOAT)
        rows.shape = ir.Shape([batch, *places, channels * kernel[0] * kernel[1]])
        return rows


def _is_conv(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == ("", "Conv")


def _is_in_integers(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> bool:
    if is_product(node):
        return is_exact_product(node, lambda value: held_integers(value, ranges))
    return bool(node.outputs) and held_integers(node.outputs[0], ranges) is not None


def _why_not(node: ir.Node, ranges: Mapping[ir.Value, Range]) -> str:
    """Return the reason why a convolution cannot be lowered; empty if it can."""
    x, shape, weights = node.inputs[0], static_shape(node.inputs[0]), constant(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if x is None or shape is None or static_shape(node.outputs[0]) is None:
        return "the size of its input is not known"
    if len(shape) != _IMAGE:
        return f"its input has {len(shape)} axes, and QONNX lowers convolutions of images, which have {_IMAGE}"
    if weights is None or (bias is not None and constant(bias) is None):
        return "its weights are not constant"
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return "its padding depends on auto_pad"
    if not is_exact_product(node, lambda value: held_integers(value, ranges)):
        return _ROUNDS
    if node.attributes.get_int("group", 1) not in (1, shape[1]):
        return "it has groups of several channels"
    pads = node.attributes.get_ints("pads") or (0, 0, 0, 0)
    sizes, kernel = shape[2:], weights.shape[2:]
    if any(sizes[i] == 1 and (kernel[i] > 1 or pads[i] or pads[i + 2]) for i in (0, 1)):
        return "Im2Col of QONNX has no windows along an axis of size one"
    return ""


def _matrix(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return filters as columns in the row order of Im2Col: pixel by pixel, each with all channels."""
    features, depth, *kernel = weights.shape
    if groups == 1:
        return np.ascontiguousarray(weights.transpose(2, 3, 1, 0).reshape(-1, features))
    dense = np.zeros((*kernel, groups * depth, features), weights.dtype)
    feature: np.ndarray = np.arange(int(features))
    for inner in range(depth):
        dense[:, :, feature * groups // features * depth + inner, feature] = weights[:, inner].transpose(1, 2, 0)
    return dense.reshape(-1, features)


def _max_pool(images: ChannelsLast, node: ir.Node) -> ir.Value | Refusal:
    x, attributes = node.inputs[0], node.attributes
    kernel, pads = attributes.get_ints("kernel_shape"), list(attributes.get_ints("pads") or (0, 0, 0, 0))
    plain = all(step == 1 for step in attributes.get_ints("dilations") or ()) and not attributes.get_int("ceil_mode", 0)
    if x is None or kernel is None or not plain or attributes.get_string("auto_pad", "NOTSET") != "NOTSET":
        return no("MaxPoolNHWC supports neither dilations nor ceil_mode nor auto_pad", at=node)
    if pads[:2] != pads[2:]:
        return no("MaxPoolNHWC pads both sides equally", at=node)
    strides = list(attributes.get_ints("strides") or (1, 1))
    return images.op.MaxPoolNHWC(
        images.last(x), _domain=GENERAL, kernel_shape=list(kernel), strides=strides, pads=pads, ceil_mode=0
    )


@dataclass(frozen=True)
class TransposedPatches:
    """A convolution that computes, for each window of pixels, a patch of the result as channels.

    ``filters`` has the shape ``[features of a patch, channels, height, width]``, with features in the order row, column
    and channel of the patch; ``size`` is the size of a patch.
    """

    filters: np.ndarray
    pads: list[int]
    size: tuple[int, int]


@dataclass(frozen=True)
class _Axis:
    """One axis of a transposed convolution: the pixels that affect a patch, and the kernel element for each."""

    first: int
    last: int
    elements: np.ndarray
    after: int


def patches_of(node: ir.Node) -> TransposedPatches | str:
    """Return a transposed convolution as a convolution of patches, or the reason why that is impossible."""
    attributes, weights = node.attributes, constant(node.inputs[1])
    shape, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if shape is None or result is None or len(shape) != _IMAGE:
        return "it is not of an image of known size"
    if weights is None or any(constant(value) is None for value in node.inputs[2:] if value is not None):
        return "its weights are not constant"
    if attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or attributes.get_ints("output_shape"):
        return "its padding depends on auto_pad or output_shape"
    if attributes.get_int("group", 1) != 1 or max(attributes.get_ints("dilations") or (1,)) > 1:
        return "it has groups or dilations"
    strides = attributes.get_ints("strides") or (1, 1)
    pads = attributes.get_ints("pads") or (0, 0, 0, 0)
    if any(size % stride for size, stride in zip(result[2:], strides, strict=True)):
        return "the size of its result is not a multiple of the strides"
    down, across = (_axis(weights.shape[2 + i], strides[i], pads[i], shape[2 + i], result[2 + i]) for i in (0, 1))
    if min(-down.first, -across.first, down.after, across.after) < 0:
        return "its padding is larger than its kernel"
    filters = _filters(weights, down.elements, across.elements)
    return TransposedPatches(filters, [-down.first, -across.first, down.after, across.after], (strides[0], strides[1]))


def _axis(kernel: int, stride: int, start: int, size: int, extent: int) -> _Axis:
    """Return the pixels for each place in patch ``i``: pixel ``i + m`` with element ``place + start - m * stride``."""
    places = np.arange(stride) + start
    first, last = int(-((kernel - 1 - places) // stride).max()), int((places // stride).max())
    elements = places[:, None] - np.arange(first, last + 1)[None, :] * stride
    return _Axis(first, last, elements, last + extent // stride - size)


def _filters(weights: np.ndarray, down: np.ndarray, across: np.ndarray) -> np.ndarray:
    """Return the filters of patches, with zeros for pixels without a kernel element."""
    channels, features, *kernel = weights.shape
    padded = np.zeros((channels, features, kernel[0] + 1, kernel[1] + 1), weights.dtype)
    padded[:, :, :-1, :-1] = weights
    rows, columns = (
        np.where((at >= 0) & (at < size), at, size) for at, size in ((down, kernel[0]), (across, kernel[1]))
    )
    chosen = padded[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    patch = chosen.transpose(2, 3, 1, 0, 4, 5)
    return np.ascontiguousarray(patch.reshape(-1, channels, *patch.shape[4:]))
