"""Windows over images, extracted channels last by Im2Col of QONNX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import Dim, dimension, rank
from onnx_passes.graph.tensor_types import set_datatype, set_sparsity
from onnx_passes.ops.qonnx import DOMAIN
from onnx_passes.passes.lower.windows import windows_of
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no

_TO_LAST, _TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


@dataclass(frozen=True)
class Patches:
    """Parameters of Im2Col: batch, channels and sizes of the images, the windows, and their numbers."""

    batch: Dim
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether the windows are the single pixels of the image, in order."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and not any(self.pads)

    @property
    def row(self) -> int:
        """Return the number of elements of a window, over all channels."""
        return self.shape[0] * self.kernel[0] * self.kernel[1]


def _patches(x: ir.Value, node: ir.Node, kernel: Sequence[int]) -> Patches | Refusal:
    if rank(x) != 4 or len(kernel) != 2:
        return no("it is not of an image", at=x)
    sizes = [dimension(x, axis) for axis in (1, 2, 3)]
    if not all(sizes):
        return no("the size of the image is not known, or zero", at=x)
    shape = tuple(size for size in sizes if size is not None)
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or node.attributes.get_int("ceil_mode", 0):
        return no("its padding depends on auto_pad or ceil_mode", at=node)
    windows = windows_of(x, node, kernel)
    if isinstance(windows, Refusal):
        return windows
    strides = tuple(node.attributes.get_ints("strides") or (1, 1))
    dilations = tuple(node.attributes.get_ints("dilations") or (1, 1))
    pads = tuple(node.attributes.get_ints("pads") or (0, 0, 0, 0))
    # QONNX reads an axis of size one as the second axis of a signal, and extracts no windows along it.
    if any(shape[1 + i] == 1 and (kernel[i] > 1 or pads[i] or pads[i + 2]) for i in (0, 1)):
        return no("Im2Col of QONNX has no windows along an axis of size one", at=node)
    outputs = tuple(window.outputs for window in windows)
    return Patches(_batch(x), shape, tuple(kernel), strides, dilations, pads, outputs)


def _batch(x: ir.Value) -> Dim:
    assert x.shape is not None
    return x.shape[0]


def _rows(op: Builder, x: ir.Value, patches: Patches, *, depthwise: bool = False) -> ir.Value:
    """Build the elements of each window as one row: ``[N, OH, OW, KH * KW * C]``."""
    image = op.Transpose(x, perm=_TO_LAST)
    channels, height, width = patches.shape
    _typed(image, x, [patches.batch, height, width, channels])
    if patches.is_whole:
        return image
    # QONNX runs Im2Col only on tensors with a data type, even if it is FLOAT32.
    set_datatype(image, "FLOAT32")
    rows = op.Im2Col(
        image,
        _domain=DOMAIN,
        stride=list(patches.strides),
        kernel_size=list(patches.kernel),
        pad_amount=list(patches.pads),
        dilations=list(patches.dilations),
        input_shape=f"({patches.batch if isinstance(patches.batch, int) else 1},{height},{width},{channels})",
        depthwise=int(depthwise),
        pad_value=0,
    )
    return _typed(rows, x, [patches.batch, *patches.outputs, patches.row])


def _typed(made: ir.Value, like: ir.Value, shape: Sequence[Dim]) -> ir.Value:
    made.type, made.shape = like.type, ir.Shape(shape)
    return made


def product_of_image(op: Builder, node: ir.Node, x: ir.Value, w: ir.Value) -> Rewritten:
    """Build a convolution of images with constant weights as a matrix product, or refuse."""
    weights = constant(w)
    if weights is None or weights.ndim != 4 or 0 in weights.shape:
        return no("its weights are not constant", at=w)
    patches = _patches(x, node, weights.shape[2:])
    if isinstance(patches, Refusal):
        return patches
    groups = node.attributes.get_int("group", 1)
    depthwise = groups > 1 and groups == patches.shape[0]
    matrix = op.initializer(ir.Tensor(_matrix(weights, groups), dtype=w.dtype), w.name)
    if depthwise:
        set_sparsity(matrix, {"dw": {"kernel_shape": list(patches.kernel)}})
    result = op.MatMul(_rows(op, x, patches, depthwise=depthwise), matrix)
    _typed(result, x, [patches.batch, *patches.outputs, weights.shape[0]])
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return op.Transpose(result if bias is None else op.Add(result, bias), perm=_TO_FIRST)


def _matrix(weights: np.ndarray, groups: int) -> np.ndarray:
    """Return the filters as columns, zero outside their groups, with rows in the order of Im2Col."""
    features, depth, *kernel = weights.shape
    each = features // groups
    matrix = np.zeros((*kernel, groups * depth, features), weights.dtype)
    for group in range(groups):
        here = slice(group * each, (group + 1) * each)
        matrix[:, :, group * depth : (group + 1) * depth, here] = weights[here].transpose(2, 3, 1, 0)
    return matrix.reshape(-1, features)


def largest_of_image(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    """Build a channels-last MaxPool of images, or refuse."""
    if any(step != 1 for step in node.attributes.get_ints("dilations") or ()):
        return no("MaxPoolNHWC of QONNX has no dilations", at=node)
    patches = _patches(x, node, node.attributes.get_ints("kernel_shape", ()))
    if isinstance(patches, Refusal):
        return patches
    if patches.pads[:2] != patches.pads[2:]:
        return no("its padding is not the same on both sides", at=node)
    channels, height, width = patches.shape
    image = _typed(op.Transpose(x, perm=_TO_LAST), x, [patches.batch, height, width, channels])
    largest = op.MaxPoolNHWC(
        image,
        _domain=DOMAIN,
        kernel_shape=list(patches.kernel),
        strides=list(patches.strides),
        pads=list(patches.pads),
        ceil_mode=0,
    )
    return op.Transpose(_typed(largest, x, [patches.batch, *patches.outputs, channels]), perm=_TO_FIRST)


def _pooled(x: ir.Value, node: ir.Node) -> Patches | Refusal:
    if node.op_type.startswith("Global"):
        return _patches(x, node, [dimension(x, axis) or 0 for axis in range(2, rank(x) or 0)])
    return _patches(x, node, node.attributes.get_ints("kernel_shape", ()))


def average_of_image(op: Builder, node: ir.Node, x: ir.Value) -> Rewritten:
    """Build an average pool of images as a scaled sum over each window, or refuse."""
    if x.dtype is not ir.DataType.FLOAT:
        return no("it is not known to be of floats", at=x)
    patches = _pooled(x, node)
    if isinstance(patches, Refusal):
        return patches
    if any(patches.pads) and not node.attributes.get_int("count_include_pad", 0):
        return no("windows at the border average fewer elements", at=node)
    places, channels = patches.kernel[0] * patches.kernel[1], patches.shape[0]
    apart = [*patches.outputs, places, channels]
    first = patches.batch if isinstance(patches.batch, int) else 0
    seen = op.Reshape(_rows(op, x, patches), np.array([first, *apart], np.int64))
    total = op.ReduceSum(_typed(seen, x, [patches.batch, *apart]), np.array([3], np.int64), keepdims=0)
    _typed(total, x, [patches.batch, *patches.outputs, channels])
    return op.Transpose(op.Mul(total, np.array(1 / places, np.float32)), perm=_TO_FIRST)
