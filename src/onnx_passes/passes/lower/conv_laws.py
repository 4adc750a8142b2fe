"""Laws of convolutions: lower them to gathers and a matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.passes.lower.image_rows import product_of_image
from onnx_passes.passes.lower.windows import PADDING, AxisWindow, unfold, windows_of
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no


def _windows(x: ir.Value, w: ir.Value, node: ir.Node) -> list[AxisWindow] | Refusal:
    shape = static_shape(w)
    if shape is None or 0 in shape or dimension(x, 1) is None or dimension(x, 0) == 0:
        return no("the shape of the weights, or the number of channels, is not known or zero", at=w)
    return windows_of(x, node, shape[2:]) if node.op_type == "Conv" else _spread_windows(x, node, shape[2:])


def _spread_windows(x: ir.Value, node: ir.Node, kernel: Sequence[int]) -> list[AxisWindow] | Refusal:
    """Return the windows of a transposed convolution: the input elements that contribute to each output."""
    dims = len(kernel)
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if mode not in ("NOTSET", "VALID") or node.attributes.get_ints("output_shape"):
        return no("the padding depends on auto_pad or output_shape", at=node)
    if rank(x) != dims + 2:
        return no("the rank of the input is not known", at=x)
    strides = node.attributes.get_ints("strides") or (1,) * dims
    dilations = node.attributes.get_ints("dilations") or (1,) * dims
    more = node.attributes.get_ints("output_padding") or (0,) * dims
    pads = (node.attributes.get_ints("pads") if mode == "NOTSET" else None) or (0,) * (2 * dims)
    found: list[AxisWindow] = []
    for axis in range(dims):
        size, stride = dimension(x, axis + 2), strides[axis]
        if not size:
            return no("the spatial sizes of the input are not known, or zero", at=x)
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        outputs = (size - 1) * stride + reach + more[axis] - pads[axis] - pads[axis + dims]
        if outputs <= 0:
            return no("the result is empty", at=node)
        steps = np.arange(outputs)[:, None] + pads[axis] - np.arange(kernel[axis])[None, :] * dilations[axis]
        places, between = np.divmod(steps, stride)
        inside = (between == 0) & (places >= 0) & (places < size)
        found.append(AxisWindow(size, np.where(inside, places, PADDING), np.sum(inside, axis=1)))
    return found


def _product_of_rows(op: Builder, node: ir.Node, x: ir.Value, w: ir.Value) -> Rewritten:
    if x.dtype is None:
        return no("the type of the input is not known", at=x)
    windows = _windows(x, w, node)
    if isinstance(windows, Refusal):
        return windows
    groups = node.attributes.get_int("group", 1)
    outputs = [window.outputs for window in windows]
    matrix, features = _matrix(op, w, groups, transposed=node.op_type == "ConvTranspose")
    rows = columns(op, x, windows)
    if groups == 1:
        result = op.MatMul(rows, matrix)
    else:
        split = op.Reshape(rows, np.array([0, math.prod(outputs), groups, _size(x, windows) // groups], np.int64))
        product = op.MatMul(op.Transpose(split, perm=[0, 2, 1, 3]), matrix)
        result = op.Reshape(op.Transpose(product, perm=[0, 2, 1, 3]), np.array([0, *outputs, features], np.int64))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        result = op.Add(result, bias)
    return op.Transpose(result, perm=[0, len(outputs) + 1, *range(1, len(outputs) + 1)])


def columns(op: Builder, x: ir.Value, windows: Sequence[AxisWindow]) -> ir.Value:
    """Build ``[N, outputs…, C * kernel]``: the elements of each window, over all channels."""
    dims = len(windows)
    if all(window.is_whole for window in windows):
        return op.Transpose(x, perm=[0, *range(2, 2 + dims), 1])
    assert x.dtype is not None
    zero = op.initializer(ir.Tensor(np.zeros((), x.dtype.numpy()), dtype=x.dtype), "zero")
    outputs, kernel = range(2, 2 + 2 * dims, 2), range(3, 3 + 2 * dims, 2)
    seen = op.Transpose(unfold(op, x, windows, zero), perm=[0, *outputs, 1, *kernel])
    return op.Reshape(seen, np.array([0, *(window.outputs for window in windows), _size(x, windows)], np.int64))


def _size(x: ir.Value, windows: Sequence[AxisWindow]) -> int:
    """Return the number of elements of a window, over all channels."""
    return (dimension(x, 1) or 0) * math.prod(window.places.shape[1] for window in windows)


def _matrix(op: Builder, w: ir.Value, groups: int, *, transposed: bool) -> tuple[ir.Value, int]:
    """Return the weights as a matrix (one per group) with a column per feature, and the number of features."""
    shape = static_shape(w)
    assert shape is not None
    first, second, *kernel = shape
    features = second * groups if transposed else first
    split = (groups, first // groups, second, *kernel)
    size = (first // groups if transposed else second) * math.prod(kernel)
    moved = (0, 1, *range(3, 3 + len(kernel)), 2) if transposed else (0, *range(2, 3 + len(kernel)), 1)
    final = (size, features) if groups == 1 else (groups, size, features // groups)
    array = None if is_used_elsewhere(w) else constant(w)
    if array is not None:
        made = np.ascontiguousarray(array.reshape(split).transpose(moved).reshape(final))
        return op.initializer(ir.Tensor(made, dtype=w.dtype), w.name), features
    turned = op.Transpose(op.Reshape(w, np.array(split, np.int64)), perm=list(moved))
    return op.Reshape(turned, np.array(final, np.int64)), features


_law = Vocabulary(_product_of_rows, product_of_image).law
_OF_IMAGE = _law("Conv(x, w, ...) → product_of_image(result, x, w)", name="ConvOfImage")


@passes.verify.tolerance
@passes.register("lower")
class LowerConv(LawPass):
    """Lower convolutions to gathers and matrix products.

    Rewrites: ``Conv(x, w, b)`` → ``MatMul(rows of x, w') + b``, where each row has the elements of one window; likewise
              for ``ConvTranspose``; with any groups, strides, dilations and padding. With ``im2col``, convolutions of
              images → ``MatMul(Im2Col(x), w') + b`` with channels last, between two transpositions.
    Refuses:  opsets below 13; unknown spatial sizes or shapes of weights; ``ConvTranspose`` with ``auto_pad`` or
              ``output_shape``.
    Exactness: rounding.
    """

    lowers = ("Conv", "ConvTranspose")
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    im2col: bool = option(False, "extract windows by Im2Col of QONNX where the image and its weights are known")
    laws = (
        _OF_IMAGE,
        *(
            _law(f"{f}(x, w, ...) → product_of_rows(result, x, w)", When("opset >= 13", "needs opset 13"))
            for f in ("Conv", "ConvTranspose")
        ),
    )

    def chosen(self) -> Sequence[Law]:
        """Return the laws, without that for images unless ``im2col`` is set."""
        return self.laws if self.im2col else [law for law in self.laws if law is not _OF_IMAGE]
