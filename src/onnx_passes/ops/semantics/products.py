"""Matrix products, convolutions and their like: scalar products of sequences.

What a runtime adds to a scalar product on the way (a bias, a factor) is rounded in no promised order either, so that
it is part of the sequence.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.elementwise import cast_to
from onnx_passes.ops.semantics.reductions import patches, windows_of
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView
from onnx_passes.ops.windows import SlidingWindows


def dot(call: OperatorView, dtype: ir.DataType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return scalar products along the last axis of arrays that broadcast."""
    a, b = np.broadcast_arrays(a, b)
    call.algebra.afford(a.size)
    if not a.shape[-1]:
        return np.broadcast_to(call.algebra.constant(dtype, np.zeros((), dtype.numpy())), a.shape[:-1])
    return call.sequence(Symbol("Dot", dtype, (dtype, dtype)), [a, b])


@SEMANTICS.of("MatMul")
def _matmul(call: OperatorView) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    return Tensor(a.dtype, None, product(call, a.dtype, a.elements(call.algebra), b.elements(call.algebra)))


def product(call: OperatorView, dtype: ir.DataType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply arrays of matrices, as numpy does."""
    rows, columns = a.ndim == 1, b.ndim == 1
    a = a[None, :] if rows else a
    b = b[:, None] if columns else b
    if a.shape[-1] != b.shape[-2]:
        raise UnsupportedError("matrices that do not fit")
    found = dot(call, dtype, a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
    found = found[..., 0, :] if rows else found
    return found[..., 0] if columns else found


@SEMANTICS.of("Gemm")
def _gemm(call: OperatorView) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    dtype = a.dtype
    x, y = a.elements(call.algebra), b.elements(call.algebra)
    x = x.T if call.get("transA", 0) else x
    y = y.T if call.get("transB", 0) else y
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    if alpha == 1.0 and not call.has(2):
        return Tensor(dtype, None, product(call, dtype, x, y))
    left, right = np.broadcast_arrays(x[:, None, :], y.T[None, :, :])
    call.algebra.afford(left.size)
    operands = [left, right]
    if call.has(2):
        bias = np.broadcast_to(call.elements(2), left.shape[:-1])
        operands.append(np.broadcast_to(bias[..., None], left.shape))
    if not left.shape[-1]:
        raise UnsupportedError("a Gemm of nothing")
    symbol = Symbol("Gemm", dtype, (dtype,) * len(operands), (float(alpha), float(beta)))
    return Tensor(dtype, None, call.sequence(symbol, operands))


@SEMANTICS.of("MatMulInteger")
def _matmul_integer(call: OperatorView) -> Tensor:
    rows = call.has(2) and len(call.tensor(2).shape) == 1 and len(call.tensor(0).shape) > 1
    a = _centred(call, 0, 2, (-1, 1) if rows else None)
    b = _centred(call, 1, 3, None)
    return Tensor(ir.DataType.INT32, None, product(call, ir.DataType.INT32, a, b))


def _centred(call: OperatorView, index: int, zero: int, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return an operand as 32-bit integers, without its zero point, which is brought into a shape."""
    wide = ir.DataType.INT32
    x = cast_to(call, call.tensor(index), wide)
    if not call.has(zero):
        return x.elements(call.algebra)
    point = cast_to(call, call.tensor(zero), wide).elements(call.algebra)
    point = point if shape is None else point.reshape(shape)
    return call.algebra.scalar(Symbol("Sub", wide, (wide, wide)), [x.elements(call.algebra), point])


@SEMANTICS.of("Conv")
def _conv(call: OperatorView) -> Tensor:
    x, w = call.tensor(0), call.tensor(1)
    operands = convolved(call, x.dtype, x.elements(call.algebra), w.elements(call.algebra))
    if not call.has(2):
        return Tensor(x.dtype, None, dot(call, x.dtype, *operands))
    left, right = np.broadcast_arrays(*operands)
    bias = call.elements(2).reshape(-1, *(1,) * (left.ndim - 2))
    symbol = Symbol("Gemm", x.dtype, (x.dtype,) * 3, (1.0, 1.0))
    return Tensor(x.dtype, None, call.sequence(symbol, [left, right, np.broadcast_to(bias, left.shape)]))


@SEMANTICS.of("ConvInteger")
def _conv_integer(call: OperatorView) -> Tensor:
    wide = ir.DataType.INT32
    x = _centred(call, 0, 2, ())
    w = _centred(call, 1, 3, (-1, *(1,) * (len(call.tensor(1).shape) - 1)))
    return Tensor(wide, None, dot(call, wide, *convolved(call, wide, x, w)))


def convolved(call: OperatorView, dtype: ir.DataType, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return images and weights of a convolution as sequences to multiply."""
    windows = windows_of(call, x.shape[2:], w.shape[2:])
    zero = call.algebra.constant(dtype, np.zeros((), dtype.numpy()))
    return arranged(call, x, w, windows, zero, call.get("group", 1))


def _amount(windows: SlidingWindows, sizes: tuple[int, ...]) -> int:
    try:
        return int(np.prod([windows.amount(axis, size) for axis, size in enumerate(sizes)]))
    except ModelError as error:
        raise UnsupportedError(str(error)) from error


def arranged(
    call: OperatorView, x: np.ndarray, w: np.ndarray, windows: SlidingWindows, zero: np.ndarray, group: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return windows of images and weights as ``[N, outputs, windows…, elements]``, which broadcast."""
    call.algebra.afford(_amount(windows, x.shape[2:]), x.shape[0], w.size)
    parts = patches(call, x, windows, zero)
    n, channels, *amounts, taps = parts.shape
    axes = len(amounts)
    parts = parts.reshape(n, group, channels // group, *amounts, taps)
    parts = np.moveaxis(parts, 2, -2).reshape(n, group, 1, *amounts, channels // group * taps)
    each = w.shape[0] // group
    parts = np.broadcast_to(parts, (n, group, each, *parts.shape[3:])).reshape(n, group * each, *amounts, -1)
    return parts, w.reshape(1, w.shape[0], *(1,) * axes, -1)


@SEMANTICS.of("BatchNormalization")
def _batch_normalization(call: OperatorView) -> Tensor:
    """Scale and shift by channels; a function of five floats, since runtimes merge them in different ways."""
    x = call.tensor(0)
    if call.get("training_mode", 0) or len(call.node.outputs) > 1:
        raise UnsupportedError("BatchNormalization in training")
    others = [call.elements(index) for index in range(1, 5)]
    shaped = [other.reshape(-1, *(1,) * (len(x.shape) - 2)) if len(x.shape) > 1 else other for other in others]
    dtype, epsilon = x.dtype, np.float32(call.get("epsilon", 1e-5))
    if call.algebra.exact:
        symbol = Symbol("BatchNormalization", dtype, (dtype,) * 5, (float(epsilon),))
        return Tensor(dtype, None, call.algebra.scalar(symbol, [x.elements(call.algebra), *shaped]))
    scale, bias, mean, variance = shaped

    def of(name: str, *operands: np.ndarray) -> np.ndarray:
        return call.algebra.scalar(Symbol(name, dtype, (dtype,) * len(operands)), operands)

    deviation = of("Sqrt", of("Add", variance, call.algebra.constant(ir.DataType.FLOAT, np.asarray(epsilon))))
    centred = of("Sub", x.elements(call.algebra), mean)
    return Tensor(dtype, None, of("Add", of("Mul", centred, of("Div", scale, deviation)), bias))


@SEMANTICS.of("ConvTranspose")
def _conv_transpose(call: OperatorView) -> Tensor:
    """Convolve the input, with zeros between its elements, with the kernel turned round."""
    x, w = call.tensor(0), call.tensor(1)
    images, weights, group = x.elements(call.algebra), w.elements(call.algebra), call.get("group", 1)
    kernel = weights.shape[2:]
    axes = len(kernel)
    strides = tuple(call.get("strides", None) or (1,) * axes)
    dilations = tuple(call.get("dilations", None) or (1,) * axes)
    pads = list(call.get("pads", None) or (0,) * 2 * axes)
    more = list(call.get("output_padding", None) or (0,) * axes)
    mode = call.get("auto_pad", "NOTSET")
    reach = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    full = [(n - 1) * s + r for n, s, r in zip(images.shape[2:], strides, reach, strict=True)]
    wanted = call.get("output_shape", None)
    if mode in ("SAME_UPPER", "SAME_LOWER") and not wanted:
        wanted = [n * s for n, s in zip(images.shape[2:], strides, strict=True)]
    if wanted:
        for axis in range(axes):
            total = full[axis] + more[axis] - wanted[axis]
            less, rest = total // 2, total - total // 2
            pads[axis], pads[axis + axes] = (less, rest) if mode == "SAME_UPPER" else (rest, less)
    zero = call.algebra.constant(x.dtype, np.zeros((), x.dtype.numpy()))
    sizes = [
        r - 1 - pads[a] + (n - 1) * s + 1
        for a, (n, s, r) in enumerate(zip(images.shape[2:], strides, reach, strict=True))
    ]
    sizes = [size + reach[a] - 1 - pads[a + axes] + more[a] for a, size in enumerate(sizes)]
    if any(reach[a] - 1 < pads[a] or reach[a] - 1 + more[a] < pads[a + axes] for a in range(axes)):
        raise UnsupportedError("a ConvTranspose that cuts off elements")
    spread = np.broadcast_to(zero, (*images.shape[:2], *sizes)).copy()
    spots = tuple(
        slice(reach[a] - 1 - pads[a], reach[a] - 1 - pads[a] + (n - 1) * strides[a] + 1, strides[a])
        for a, n in enumerate(images.shape[2:])
    )
    spread[(slice(None), slice(None), *spots)] = images
    turned = weights[(slice(None), slice(None), *(slice(None, None, -1),) * axes)]
    turned = turned.reshape(group, -1, *turned.shape[1:])
    turned = np.swapaxes(turned, 1, 2).reshape(-1, weights.shape[0] // group, *kernel)
    windows = SlidingWindows(tuple(kernel), (), (), dilations)
    left, right = np.broadcast_arrays(*arranged(call, spread, turned, windows, zero, group))
    if not call.has(2):
        return Tensor(x.dtype, None, dot(call, x.dtype, left, right))
    bias = call.elements(2).reshape(-1, *(1,) * (left.ndim - 2))
    symbol = Symbol("Gemm", x.dtype, (x.dtype,) * 3, (1.0, 1.0))
    return Tensor(x.dtype, None, call.sequence(symbol, [left, right, np.broadcast_to(bias, left.shape)]))


@SEMANTICS.of("Einsum")
def _einsum(call: OperatorView) -> Tensor:
    """Add up products over the letters that the result does not have."""
    tensors = [tensor for tensor in call.inputs if tensor is not None]
    text = str(call.get("equation")).replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if "." in text or len(parts) > 2 or any(len(set(part)) < len(part) for part in parts):
        raise UnsupportedError("an Einsum of dots, diagonals or many operands")
    letters = sorted(set(left) - {","})
    kept = right if arrow else "".join(c for c in letters if left.count(c) == 1)
    order = [*kept, *(c for c in letters if c not in kept)]
    arrays: list[np.ndarray] = []
    for part, tensor in zip(parts, tensors, strict=True):
        elements = tensor.elements(call.algebra).transpose([part.index(c) for c in order if c in part])
        arrays.append(elements[tuple(slice(None) if c in part else None for c in order)])
    dtype, arrays = tensors[0].dtype, list(np.broadcast_arrays(*arrays))
    shape = arrays[0].shape[: len(kept)]
    rows = [array.reshape(*shape, -1) for array in arrays]
    if len(order) == len(kept):
        if len(rows) == 1:
            return Tensor(dtype, None, rows[0][..., 0])
        return Tensor(dtype, None, call.algebra.scalar(Symbol("Mul", dtype, (dtype, dtype)), [r[..., 0] for r in rows]))
    if len(rows) == 1:
        return Tensor(dtype, None, call.sequence(Symbol("ReduceSum", dtype, (dtype,)), rows))
    return Tensor(dtype, None, dot(call, dtype, *rows))
