"""Operators that move or pick elements, whatever these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView

Move = Callable[[OperatorView, np.ndarray], np.ndarray]


def _moves(*names: str) -> Callable[[Move], Move]:
    """Attach the movement of a first input: it sees an array and returns one of the same kind of elements."""

    def attach(move: Move) -> Move:
        def meaning(call: OperatorView) -> Tensor:
            x = call.tensor(0)
            return Tensor(x.dtype, None, move(call, x.elements(call.algebra)))

        meaning.__qualname__ = f"{move.__qualname__}.meaning"
        SEMANTICS.attach(dict.fromkeys(names, meaning))
        return move

    return attach


@_moves("Transpose")
def _transpose(call: OperatorView, x: np.ndarray) -> np.ndarray:
    return x.transpose(call.get("perm", None))


@_moves("Reshape")
def _reshape(call: OperatorView, x: np.ndarray) -> np.ndarray:
    shape = call.integers(1, "shape") or []
    if not call.get("allowzero", 0):
        shape = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    if -1 in shape and x.size == 0:
        rest = int(np.prod([size for size in shape if size != -1]))
        shape = [0 if size == -1 and rest else size for size in shape]
    return x.reshape(shape)


@_moves("Flatten")
def _flatten(call: OperatorView, x: np.ndarray) -> np.ndarray:
    axis = call.get("axis", 1)
    axis += x.ndim if axis < 0 else 0
    return x.reshape(int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))


@_moves("Squeeze")
def _squeeze(call: OperatorView, x: np.ndarray) -> np.ndarray:
    axes = call.integers(1, "axes")
    return np.squeeze(x, None if axes is None else tuple(axes))


@_moves("Unsqueeze")
def _unsqueeze(call: OperatorView, x: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(call.integers(1, "axes") or ()))


@_moves("Expand")
def _expand(call: OperatorView, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(call.integers(1) or ())))


@_moves("Tile")
def _tile(call: OperatorView, x: np.ndarray) -> np.ndarray:
    return np.tile(x, call.integers(1) or ())


@_moves("Slice")
def _slice(call: OperatorView, x: np.ndarray) -> np.ndarray:
    starts, ends = call.integers(1, "starts") or [], call.integers(2, "ends") or []
    axes = call.integers(3, "axes") or list(range(len(starts)))
    steps = call.integers(4) or [1] * len(starts)
    index: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[axis]
        # Python takes negative ends for places counted from the end; ONNX clamps what lies before the start.
        first = min(max(start + (size if start < 0 else 0), 0), size - 1 if step < 0 else size)
        last = min(max(end + (size if end < 0 else 0), -1 if step < 0 else 0), size)
        index[axis] = slice(first, None if last < 0 else last, step)
    return x[tuple(index)]


@_moves("DepthToSpace")
def _depth_to_space(call: OperatorView, x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    block = call.get("blocksize")
    if call.get("mode", "DCR") == "DCR":
        parts = x.reshape(n, block, block, c // block**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // block**2, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // block**2, h * block, w * block)


@_moves("SpaceToDepth")
def _space_to_depth(call: OperatorView, x: np.ndarray) -> np.ndarray:
    n, c, h, w = x.shape
    block = call.get("blocksize")
    order = (0, 3, 5, 1, 2, 4) if call.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = x.reshape(n, c, h // block, block, w // block, block).transpose(order)
    return parts.reshape(n, c * block**2, h // block, w // block)


@_moves("ReverseSequence")
def _reverse(call: OperatorView, x: np.ndarray) -> np.ndarray:
    lengths = call.integers(1) or []
    time, batch = call.get("time_axis", 0), call.get("batch_axis", 1)
    moved = np.moveaxis(x, (time, batch), (0, 1)).copy()
    for index, length in enumerate(lengths):
        moved[:length, index] = moved[:length, index][::-1].copy()
    return np.moveaxis(moved, (0, 1), (time, batch))


@SEMANTICS.of("Trilu")
def _trilu(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    elements = x.elements(call.algebra)
    diagonal = 0 if not call.has(1) else int(np.asarray(call.known(1)).reshape(()))
    ones = np.ones(elements.shape, bool)
    kept = np.triu(ones, diagonal) if call.get("upper", 1) else np.tril(ones, diagonal)
    return Tensor(x.dtype, None, np.where(kept, elements, _zero(call, x)))


@SEMANTICS.of("Concat")
def _concat(call: OperatorView) -> Tensor:
    tensors = [tensor for tensor in call.inputs if tensor is not None]
    arrays = [tensor.elements(call.algebra) for tensor in tensors]
    return Tensor(tensors[0].dtype, None, np.concatenate(arrays, call.get("axis", 1)))


@SEMANTICS.of("Split")
def _split(call: OperatorView) -> list[Tensor]:
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", 0)
    sizes, size, parts = call.integers(1, "split"), elements.shape[axis], len(call.node.outputs)
    if not sizes:
        each = -(-size // parts)
        sizes = [max(min(each, size - each * part), 0) for part in range(parts)]
    return [Tensor(x.dtype, None, part) for part in np.split(elements, np.cumsum(sizes)[:-1], axis)]


@SEMANTICS.of("Pad")
def _pad(call: OperatorView) -> Tensor:
    x = call.tensor(0)
    elements, pads = x.elements(call.algebra), call.integers(1, "pads") or []
    axes = call.integers(3) or list(range(elements.ndim))
    mode = call.get("mode", "constant")
    widths = np.zeros((elements.ndim, 2), np.int64)
    for place, axis in enumerate(axes):
        widths[axis] = pads[place], pads[place + len(axes)]
    cut = elements[
        tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(elements.shape, widths.tolist(), strict=True))
    ]
    widths = np.maximum(widths, 0)
    if mode != "constant":
        return Tensor(x.dtype, None, np.pad(cut, widths, mode))  # pyright: ignore[reportArgumentType]
    if call.has(2):
        fill = call.elements(2).reshape(())
    elif "value" in call.attributes:
        number = np.asarray(call.attributes["value"].value).astype(x.dtype.numpy())
        fill = call.algebra.constant(x.dtype, number)
    else:
        fill = _zero(call, x)
    shape = [n + int(w.sum()) for n, w in zip(cut.shape, widths, strict=True)]
    result = np.broadcast_to(fill, shape).copy()
    result[tuple(slice(b, b + n) for n, (b, _) in zip(cut.shape, widths.tolist(), strict=True))] = cut
    return Tensor(x.dtype, None, result)


def _zero(call: OperatorView, x: Tensor) -> np.ndarray:
    if x.dtype is x.dtype.STRING:
        raise UnsupportedError("strings have no zero")
    return call.algebra.constant(x.dtype, np.zeros((), x.dtype.numpy()))


def _picked(call: OperatorView) -> Tensor:
    """Run the operator on the numbers of places, and take the elements that are there."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    x = call.tensor(0)
    elements = x.elements(call.algebra)
    names = ["" if tensor is None else f"x{index}" for index, tensor in enumerate(call.inputs)]
    feeds = {name: np.asarray(call.known(index)) for index, name in enumerate(names) if name and index}
    feeds["x0"] = np.arange(elements.size, dtype=np.float64).reshape(elements.shape)
    node = onnx.NodeProto(
        op_type=call.node.op_type,
        input=names,
        output=["y"],
        attribute=[ir.to_proto(attr) for attr in call.attributes.values()],
    )
    graph = onnx.GraphProto(
        name="places",
        node=[node],
        input=[onnx.ValueInfoProto(name=name) for name in feeds],
        output=[onnx.ValueInfoProto(name="y")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.version)])
    try:
        evaluator: Any = ReferenceEvaluator(model)
        (places,) = evaluator.run(None, feeds)
    except Exception as error:
        raise UnsupportedError(f"{call.node.op_type} could not be run on places: {error}") from error
    whole = np.round(np.asarray(places)).astype(np.int64)
    if not np.array_equal(whole, places) or (whole.size and (whole.min() < 0 or whole.max() >= elements.size)):
        raise UnsupportedError(f"{call.node.op_type} does more than picking elements")
    return Tensor(x.dtype, None, elements.reshape(-1)[whole])


@SEMANTICS.of("Resize", "Upsample")
def _resize(call: OperatorView) -> Tensor:
    if call.get("mode", "nearest") != "nearest":
        raise UnsupportedError("Resize that interpolates")
    return _picked(call)
