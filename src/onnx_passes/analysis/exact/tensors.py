"""What operators mean that do not compute element by element: products, pooling, movement of exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.arithmetic import ExactArithmetic, UnknownOperatorError, each, filled, known, rounded
from onnx_passes.analysis.exact.functions import attribute
from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.analysis.ranges.rounding import integer_limits
from onnx_passes.graph.operators import Interface
from onnx_passes.ops.quantizing import LinearQuantizing, quantizer_of
from onnx_passes.ops.windows import SlidingWindows

Tensor = Callable[[ir.Node, Sequence[Any]], "np.ndarray | list[np.ndarray]"]
"""Computes the results of a node from arrays of exact numbers; inputs that are left out are none."""
TENSORS: Interface[Tensor] = Interface("exact_results", "its results in exact arithmetic, of whole tensors")


def _matmul(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    return matrix_product(inputs[0], inputs[1])


def matrix_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply matrices: rational ones as integers with one denominator, which takes far less time."""
    try:
        (whole_a, below_a), (whole_b, below_b) = _integers(a), _integers(b)
    except TypeError:
        return np.matmul(a, b)
    found = np.matmul(whole_a, whole_b)
    return found * Fraction(1, below_a * below_b)


def _integers(array: np.ndarray) -> tuple[np.ndarray, int]:
    if not all(isinstance(number, Fraction | int) for number in array.flat):
        raise TypeError
    common = math.lcm(*{Fraction(number).denominator for number in array.flat})
    numerators = [int(number * common) for number in array.flat]
    return np.array([*numerators, None], object)[:-1].reshape(array.shape), common


def _gemm(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    a, b = inputs[0], inputs[1]
    a = a.T if node.attributes.get_int("transA", 0) else a
    b = b.T if node.attributes.get_int("transB", 0) else b
    found = matrix_product(a, b) * attribute(node, "alpha", 1.0)
    if len(inputs) > 2 and inputs[2] is not None:
        found = found + inputs[2] * attribute(node, "beta", 1.0)
    return found


def _windows(node: ir.Node, kernel: Sequence[int], sizes: Sequence[int]) -> SlidingWindows:
    axes = len(kernel)
    if node.attributes.get_string("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise UnknownOperatorError("padding that is left open is not computed exactly")
    return SlidingWindows(
        tuple(kernel),
        tuple(node.attributes.get_ints("strides") or (1,) * axes),
        tuple(node.attributes.get_ints("pads") or (0,) * 2 * axes),
        tuple(node.attributes.get_ints("dilations") or (1,) * axes),
        bool(node.attributes.get_int("ceil_mode", 0)),
    )


def _cut(node: ir.Node, x: np.ndarray, kernel: Sequence[int], fill: Any) -> np.ndarray:
    """Return all windows of an image ``[N, C, …]``, as ``[N, C, windows…, kernel…]``."""
    axes = len(kernel)
    found = _windows(node, kernel, x.shape[2:]).of(np.moveaxis(x, 1, -1), fill)
    return np.moveaxis(found, 2 * axes + 1, 1)


def _conv(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    x, weights, groups = inputs[0], inputs[1], node.attributes.get_int("group", 1)
    axes = weights.ndim - 2
    windows = _cut(node, x, weights.shape[2:], Fraction(0))
    places = windows.shape[2 : 2 + axes]
    seen = windows.reshape(len(x), groups, weights.shape[1], math.prod(places), -1)
    rows = np.moveaxis(seen, 3, 2).reshape(len(x), groups, math.prod(places), -1)
    kernels = weights.reshape(groups, weights.shape[0] // groups, -1)
    parts = [matrix_product(rows[:, group].reshape(-1, rows.shape[-1]), kernels[group].T) for group in range(groups)]
    found = np.concatenate([part.reshape(len(x), *places, -1) for part in parts], axis=-1)
    found = np.moveaxis(found, -1, 1)
    if len(inputs) > 2 and inputs[2] is not None:
        found = found + inputs[2].reshape(-1, *(1,) * axes)
    return found


def _max_pool(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    kernel = node.attributes.get_ints("kernel_shape") or ()
    windows = _cut(node, inputs[0], kernel, None)
    flat = windows.reshape(*windows.shape[: 2 + len(kernel)], -1)
    return _along_last(flat, lambda numbers: max(number for number in numbers if number is not None))


def _average_pool(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    kernel = node.attributes.get_ints("kernel_shape") or ()
    includes = node.attributes.get_int("count_include_pad", 0)
    if includes and node.attributes.get_int("ceil_mode", 0):
        raise UnknownOperatorError("padding that counts for windows that hang over it is not computed exactly")
    windows = _cut(node, inputs[0], kernel, Fraction(0) if includes else None)
    flat = windows.reshape(*windows.shape[: 2 + len(kernel)], -1)

    def mean(numbers: Sequence[Any]) -> Any:
        held = [number for number in numbers if number is not None]
        return sum(held, Fraction(0)) / len(held)

    return _along_last(flat, mean)


def _along_last(array: np.ndarray, function: Callable[[Sequence[Any]], Any]) -> np.ndarray:
    found = np.empty(array.shape[:-1], object)
    for index in np.ndindex(found.shape):
        found[index] = function(list(array[index]))
    return found


def _global(function: Callable[[Sequence[Any]], Any]) -> Tensor:
    def compute(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
        x = inputs[0]
        found = _along_last(x.reshape(*x.shape[:2], -1), function)
        return found.reshape(*x.shape[:2], *(1,) * (x.ndim - 2))

    return compute


def _reduction(function: Callable[[Sequence[Any]], Any]) -> Tensor:
    def compute(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
        x, given = inputs[0], node.attributes.get_ints("axes")
        if given is None and len(inputs) > 1 and inputs[1] is not None:
            given = [int(axis) for axis in inputs[1].reshape(-1)]
        if not given and node.attributes.get_int("noop_with_empty_axes", 0):
            return x
        axes = sorted(axis % x.ndim for axis in given or range(x.ndim))
        rest = [axis for axis in range(x.ndim) if axis not in axes]
        moved = np.transpose(x, [*rest, *axes]).reshape(*(x.shape[axis] for axis in rest), -1)
        found = _along_last(moved, function)
        if node.attributes.get_int("keepdims", 1):
            found = found.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])
        return found

    return compute


def _sum(numbers: Sequence[Any]) -> Any:
    return sum(numbers, Fraction(0))


def _mean(numbers: Sequence[Any]) -> Any:
    return _sum(numbers) / len(numbers)


def _concat(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    return np.concatenate(inputs, axis=node.attributes.get_int("axis", 0))


def _pad(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    x = inputs[0]
    if node.attributes.get_string("mode", "constant") != "constant" or len(inputs) > 3 or len(inputs) < 2:
        raise UnknownOperatorError("Pad is computed exactly with a constant and for all axes alone")
    fill = Fraction(0) if len(inputs) < 3 or inputs[2] is None else inputs[2].reshape(-1)[0]
    before, after = np.array([int(size) for size in inputs[1].flat]).reshape(2, -1)
    found = filled([size + low + high for size, low, high in zip(x.shape, before, after, strict=True)], fill)
    found[tuple(slice(low, low + size) for size, low in zip(x.shape, before, strict=True))] = x
    return found


def _quantize_linear(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    quantizer, x = quantizer_of(node), inputs[0]
    limits = integer_limits(quantizer.dtype(node)) if isinstance(quantizer, LinearQuantizing) else None
    if limits is None or node.attributes.get_int("block_size", 0):
        raise UnknownOperatorError("QuantizeLinear to floats, or in blocks, is not computed exactly")
    zero = _along_axis(node, x, inputs[2]) if len(inputs) > 2 and inputs[2] is not None else filled((), Fraction(0))
    whole = each(partial(rounded, "ROUND"), x / _along_axis(node, x, inputs[1])) + zero
    low, high = (filled((), Fraction(limit)) for limit in limits)
    return each(min, each(max, whole, low), high)


def quantized_linear(arithmetic: ExactArithmetic, node: ir.Node, x: np.ndarray) -> np.ndarray:
    """Return what a QuantizeLinear of constant parameters makes of the element at an index."""
    parameters = [None if value is None else known(value) for value in node.inputs[1:3]]
    length = len(node.inputs[0].shape or ()) if node.inputs[0] is not None else 0
    laid = [None if each is None else arithmetic.of(_laid_out(node, each, length)) for each in parameters]
    return _quantize_linear(node, [x, *laid])


def _laid_out(node: ir.Node, numbers: Reals, length: int) -> Reals:
    if numbers.size == 1:
        return numbers.reshape()
    axis = node.attributes.get_int("axis", 1) % length
    return numbers.reshape(*(-1 if each == axis else 1 for each in range(length)))


def _dequantize_linear(node: ir.Node, inputs: Sequence[Any]) -> np.ndarray:
    x = inputs[0]
    zero = _along_axis(node, x, inputs[2]) if len(inputs) > 2 and inputs[2] is not None else filled((), Fraction(0))
    return (x - zero) * _along_axis(node, x, inputs[1])


def _along_axis(node: ir.Node, x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    if numbers.size == 1:
        return numbers.reshape(())
    shape = [1] * x.ndim
    shape[node.attributes.get_int("axis", 1)] = -1
    return numbers.reshape(shape)


TENSORS.attach(
    {
        "AveragePool": _average_pool,
        "Concat": _concat,
        "Conv": _conv,
        "DequantizeLinear": _dequantize_linear,
        "Gemm": _gemm,
        "GlobalAveragePool": _global(_mean),
        "GlobalMaxPool": _global(max),
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "Pad": _pad,
        "QuantizeLinear": _quantize_linear,
        "ReduceMax": _reduction(max),
        "ReduceMean": _reduction(_mean),
        "ReduceMin": _reduction(min),
        "ReduceSum": _reduction(_sum),
    }
)
