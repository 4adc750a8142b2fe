"""Matrix products, convolutions and their like: scalar products of sequences.

What a runtime adds to a scalar product on the way (a bias, a factor) is rounded in no promised order either, so that
it is part of the sequence.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call
from onnx_passes.proofs.meanings.elementwise import cast_to
from onnx_passes.proofs.meanings.reductions import patches, windows_of


def dot(call: Call, dtype: ir.DataType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return scalar products along the last axis of arrays that broadcast."""
    a, b = np.broadcast_arrays(a, b)
    if not a.shape[-1]:
        return np.broadcast_to(call.algebra.constant(dtype, np.zeros((), dtype.numpy())), a.shape[:-1])
    return call.algebra.sequence(Symbol("Dot", dtype, (dtype, dtype)), [a, b])


@MEANINGS.of("MatMul")
def _matmul(call: Call) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    return Tensor(a.dtype, None, product(call, a.dtype, a.elements(call.algebra), b.elements(call.algebra)))


def product(call: Call, dtype: ir.DataType, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply arrays of matrices, as numpy does."""
    rows, columns = a.ndim == 1, b.ndim == 1
    a = a[None, :] if rows else a
    b = b[:, None] if columns else b
    if a.shape[-1] != b.shape[-2]:
        raise UnsupportedError("matrices that do not fit")
    found = dot(call, dtype, a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :])
    found = found[..., 0, :] if rows else found
    return found[..., 0] if columns else found


@MEANINGS.of("Gemm")
def _gemm(call: Call) -> Tensor:
    a, b = call.tensor(0), call.tensor(1)
    dtype = a.dtype
    x, y = a.elements(call.algebra), b.elements(call.algebra)
    x = x.T if call.get("transA", 0) else x
    y = y.T if call.get("transB", 0) else y
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    if alpha == 1.0 and not call.has(2):
        return Tensor(dtype, None, product(call, dtype, x, y))
    left, right = np.broadcast_arrays(x[:, None, :], y.T[None, :, :])
    operands = [left, right]
    if call.has(2):
        bias = np.broadcast_to(call.elements(2), left.shape[:-1])
        operands.append(np.broadcast_to(bias[..., None], left.shape))
    if not left.shape[-1]:
        raise UnsupportedError("a Gemm of nothing")
    symbol = Symbol("Gemm", dtype, (dtype,) * len(operands), (float(alpha), float(beta)))
    return Tensor(dtype, None, call.algebra.sequence(symbol, operands))


@MEANINGS.of("MatMulInteger")
def _matmul_integer(call: Call) -> Tensor:
    rows = call.has(2) and len(call.tensor(2).shape) == 1 and len(call.tensor(0).shape) > 1
    a = _centred(call, 0, 2, (-1, 1) if rows else None)
    b = _centred(call, 1, 3, None)
    return Tensor(ir.DataType.INT32, None, product(call, ir.DataType.INT32, a, b))


def _centred(call: Call, index: int, zero: int, shape: tuple[int, ...] | None) -> np.ndarray:
    """Return an operand as 32-bit integers, without its zero point, which is brought into a shape."""
    wide = ir.DataType.INT32
    x = cast_to(call, call.tensor(index), wide)
    if not call.has(zero):
        return x.elements(call.algebra)
    point = cast_to(call, call.tensor(zero), wide).elements(call.algebra)
    point = point if shape is None else point.reshape(shape)
    return call.algebra.scalar(Symbol("Sub", wide, (wide, wide)), [x.elements(call.algebra), point])


@MEANINGS.of("Conv")
def _conv(call: Call) -> Tensor:
    x, w = call.tensor(0), call.tensor(1)
    operands = convolved(call, x.dtype, x.elements(call.algebra), w.elements(call.algebra))
    if not call.has(2):
        return Tensor(x.dtype, None, dot(call, x.dtype, *operands))
    left, right = np.broadcast_arrays(*operands)
    bias = call.elements(2).reshape(-1, *(1,) * (left.ndim - 2))
    symbol = Symbol("Gemm", x.dtype, (x.dtype,) * 3, (1.0, 1.0))
    return Tensor(x.dtype, None, call.algebra.sequence(symbol, [left, right, np.broadcast_to(bias, left.shape)]))


@MEANINGS.of("ConvInteger")
def _conv_integer(call: Call) -> Tensor:
    wide = ir.DataType.INT32
    x = _centred(call, 0, 2, ())
    w = _centred(call, 1, 3, (-1, *(1,) * (len(call.tensor(1).shape) - 1)))
    return Tensor(wide, None, dot(call, wide, *convolved(call, wide, x, w)))


def convolved(call: Call, dtype: ir.DataType, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return images and weights as ``[N, outputs, windows…, elements]``, which broadcast."""
    group = call.get("group", 1)
    kernel = w.shape[2:]
    windows = windows_of(call, x.shape[2:], kernel)
    zero = call.algebra.constant(dtype, np.zeros((), dtype.numpy()))
    parts = patches(call, x, windows, zero)
    n, channels, *amounts, taps = parts.shape
    axes = len(amounts)
    parts = parts.reshape(n, group, channels // group, *amounts, taps)
    parts = np.moveaxis(parts, 2, -2).reshape(n, group, 1, *amounts, channels // group * taps)
    each = w.shape[0] // group
    parts = np.broadcast_to(parts, (n, group, each, *parts.shape[3:])).reshape(n, group * each, *amounts, -1)
    return parts, w.reshape(1, w.shape[0], *(1,) * axes, -1)


@MEANINGS.of("BatchNormalization")
def _batch_normalization(call: Call) -> Tensor:
    """Scale and shift by channels; a function of five numbers, since runtimes merge them in different ways."""
    x = call.tensor(0)
    if call.get("training_mode", 0) or len(call.node.outputs) > 1:
        raise UnsupportedError("BatchNormalization in training")
    others = [call.elements(index) for index in range(1, 5)]
    shaped = [other.reshape(-1, *(1,) * (len(x.shape) - 2)) if len(x.shape) > 1 else other for other in others]
    symbol = Symbol("BatchNormalization", x.dtype, (x.dtype,) * 5, (float(np.float32(call.get("epsilon", 1e-5))),))
    return Tensor(x.dtype, None, call.algebra.scalar(symbol, [x.elements(call.algebra), *shaped]))
