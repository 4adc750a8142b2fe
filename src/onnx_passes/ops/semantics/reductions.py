"""Reductions and pooling: functions of the sequences of elements that they combine."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.traits import operators
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView
from onnx_passes.ops.windows import SlidingWindows

_NOTHING = {"ReduceSum": 0, "ReduceSumSquare": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceProd": 1}
"""What there is of no elements."""


def _reduction(call: OperatorView) -> Tensor:
    x, name = call.tensor(0), call.node.op_type
    elements = x.elements(call.algebra)
    axes = call.integers(1, "axes") or []
    if not axes:
        if call.get("noop_with_empty_axes", 0):
            return _alone(call, name, x)
        axes = list(range(elements.ndim))
    axes = sorted(axis % elements.ndim for axis in axes) if elements.ndim else []
    if not axes:
        return _alone(call, name, x)
    kept = [axis for axis in range(elements.ndim) if axis not in axes]
    shape = [elements.shape[axis] for axis in kept]
    count = int(np.prod([elements.shape[axis] for axis in axes]))
    groups = elements.transpose([*kept, *axes]).reshape([*shape, count])
    if not count:
        fill = _of_nothing(name, x.dtype)
        result = np.broadcast_to(call.algebra.constant(x.dtype, fill), shape)
    else:
        result = call.sequence(Symbol(name, x.dtype, (x.dtype,)), [groups])
    return Tensor(x.dtype, None, np.expand_dims(result, tuple(axes)) if call.get("keepdims", 1) else result)


def _of_nothing(name: str, dtype: ir.DataType) -> np.ndarray:
    """Return what a reduction makes of no elements."""
    if name in _NOTHING:
        return np.asarray(_NOTHING[name]).astype(dtype.numpy())
    if name not in ("ReduceMax", "ReduceMin"):
        raise UnsupportedError(f"{name} of nothing")
    least = name == "ReduceMax"
    if dtype.is_floating_point():
        return np.asarray(-np.inf if least else np.inf).astype(dtype.numpy())
    if dtype is ir.DataType.BOOL:
        return np.asarray(not least)
    info = np.iinfo(dtype.numpy())
    return np.asarray(info.min if least else info.max, dtype.numpy())


def _alone(call: OperatorView, name: str, x: Tensor) -> Tensor:
    return Tensor(
        x.dtype, None, call.sequence(Symbol(name, x.dtype, (x.dtype,)), [x.elements(call.algebra)[..., None]])
    )


SEMANTICS.attach({name: _reduction for name in operators("reduction") if name.startswith("Reduce")})


def windows_of(call: OperatorView, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> SlidingWindows:
    """Return how windows slide over an image of some sizes."""
    axes, mode = len(kernel), call.get("auto_pad", "NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    strides = tuple(call.get("strides", None) or (1,) * axes)
    dilations = tuple(call.get("dilations", None) or (1,) * axes)
    pads = tuple(call.get("pads", None) or (0,) * 2 * axes)
    if mode == "VALID":
        pads = (0,) * 2 * axes
    elif mode.startswith("SAME"):
        reach = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
        needed = [
            max((-(-size // stride) - 1) * stride + extent - size, 0)
            for size, stride, extent in zip(sizes, strides, reach, strict=True)
        ]
        less, more = [each // 2 for each in needed], [each - each // 2 for each in needed]
        pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    try:
        return SlidingWindows(tuple(kernel), strides, pads, dilations, bool(call.get("ceil_mode", 0)))
    except ModelError as error:
        raise UnsupportedError(str(error)) from error


def places(windows: SlidingWindows, sizes: tuple[int, ...]) -> np.ndarray:
    """Return where the elements of windows are in an image, flat, as ``[windows…, kernel…]``; -1 is padding."""
    image = np.arange(int(np.prod(sizes)), dtype=np.int64).reshape(1, *sizes, 1)
    try:
        return windows.of(image, -1)[0, ..., 0]
    except ModelError as error:
        raise UnsupportedError(str(error)) from error


def patches(call: OperatorView, elements: np.ndarray, windows: SlidingWindows, fill: np.ndarray) -> np.ndarray:
    """Return the windows of images ``[N, C, …]`` as ``[N, C, windows…, elements]``, padding filled."""
    sizes = elements.shape[2:]
    found = places(windows, sizes)
    call.algebra.afford(found.size, *elements.shape[:2])
    flat = elements.reshape(*elements.shape[:2], int(np.prod(elements.shape[2:])))
    flat = np.concatenate([flat, np.broadcast_to(fill, (*flat.shape[:2], 1))], -1)
    taken = flat[..., found.reshape(-1)]
    amounts = found.shape[: len(sizes)]
    return taken.reshape(*elements.shape[:2], *amounts, -1)


@SEMANTICS.of("MaxPool")
def _max_pool(call: OperatorView) -> Tensor:
    if len(call.node.outputs) > 1:
        raise UnsupportedError("indices of MaxPool")
    return _pooled(call, _maximum(call))


def _maximum(call: OperatorView) -> str:
    """Name the maximum of a window: of floats it begins with the least finite number, and passes over NaN."""
    return "PoolMax" if call.tensor(0).dtype.is_floating_point() else "ReduceMax"


@SEMANTICS.of("AveragePool")
def _average_pool(call: OperatorView) -> Tensor:
    return _pooled(call, "ReduceMean", counts_padding=bool(call.get("count_include_pad", 0)))


@SEMANTICS.of("LpPool")
def _lp_pool(call: OperatorView) -> Tensor:
    if call.get("p", 2) not in (1, 2):
        raise UnsupportedError("LpPool of another norm")
    return _pooled(call, f"ReduceL{call.get('p', 2)}")


def _pooled(call: OperatorView, name: str, *, counts_padding: bool = False) -> Tensor:
    """Combine the elements of each window; padding is not among them, unless it counts."""
    x = call.tensor(0)
    elements, dtype = x.elements(call.algebra), x.dtype
    windows = windows_of(call, elements.shape[2:], tuple(call.get("kernel_shape")))
    if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") and any(step > 1 for step in windows.dilations):
        raise UnsupportedError("ONNX Runtime pads dilated windows as if they were not dilated")
    if counts_padding:
        if windows.ceil:
            raise UnsupportedError("padding that counts in windows that hang over it")
        zero = call.algebra.constant(dtype, np.zeros((), dtype.numpy()))
        return Tensor(dtype, None, _combined(call, name, dtype, patches(call, elements, windows, zero)))
    found = places(windows, elements.shape[2:])
    amounts = found.shape[: elements.ndim - 2]
    call.algebra.afford(found.size, *elements.shape[:2])
    found = found.reshape(int(np.prod(amounts)), -1)
    flat = elements.reshape(*elements.shape[:2], int(np.prod(elements.shape[2:])))
    result: np.ndarray | None = None
    inside = found >= 0
    for count in np.unique(inside.sum(1)).tolist():
        if not count:
            raise UnsupportedError("a window of padding only")
        rows = np.flatnonzero(inside.sum(1) == count)
        index = found[rows][inside[rows]].reshape(len(rows), count)
        made = _combined(call, name, dtype, flat[..., index])
        if result is None:
            result = np.empty((*flat.shape[:2], len(found)), made.dtype)
        result[..., rows] = made
    if result is None:
        raise UnsupportedError("pooling of nothing")
    return Tensor(dtype, None, result.reshape(*flat.shape[:2], *amounts))


def _global(call: OperatorView, name: str) -> Tensor:
    x = call.tensor(0)
    elements = x.elements(call.algebra)
    groups = elements.reshape(*elements.shape[:2], int(np.prod(elements.shape[2:])))
    result = _combined(call, name, x.dtype, groups)
    return Tensor(x.dtype, None, result.reshape(*elements.shape[:2], *(1,) * (elements.ndim - 2)))


def _combined(call: OperatorView, name: str, dtype: ir.DataType, groups: np.ndarray) -> np.ndarray:
    """Combine the elements of windows; other than that of ReduceMean, a mean of one element loses the sign of zero."""
    if name == "ReduceMean" and groups.shape[-1] == 1:
        zero = call.algebra.constant(dtype, np.zeros((), dtype.numpy()))
        return call.algebra.scalar(Symbol("Add", dtype, (dtype, dtype)), [groups[..., 0], zero])
    return call.sequence(Symbol(name, dtype, (dtype,)), [groups])


@SEMANTICS.of("GlobalAveragePool")
def _global_average(call: OperatorView) -> Tensor:
    return _global(call, "ReduceMean")


@SEMANTICS.of("GlobalMaxPool")
def _global_max(call: OperatorView) -> Tensor:
    return _global(call, _maximum(call))


@SEMANTICS.of("CumSum")
def _cumulative(call: OperatorView) -> Tensor:
    x, axis = call.tensor(0), int(np.asarray(call.known(1)).reshape(()))
    if call.get("exclusive", 0):
        raise UnsupportedError("exclusive CumSum")
    elements = np.moveaxis(x.elements(call.algebra), axis, -1)
    elements = elements[..., ::-1] if call.get("reverse", 0) else elements
    symbol = Symbol("Add", x.dtype, (x.dtype, x.dtype))
    sums = [elements[..., 0]] if elements.shape[-1] else []
    for place in range(1, elements.shape[-1]):
        sums.append(call.algebra.scalar(symbol, [sums[-1], elements[..., place]]))
    result = np.stack(sums, -1) if sums else elements
    return Tensor(x.dtype, None, np.moveaxis(result[..., ::-1] if call.get("reverse", 0) else result, -1, axis))
