"""Windows that slide over the middle axes of an image whose channels come last, and names of axis orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


_INPUTS_INSTEAD_OF_ATTRIBUTES = {"Pad": 11, "Slice": 10}


def channels_first(op: Builder, x: ir.Value, axes: int) -> ir.Value:
    """Bring the last of so many axes to the second place."""
    return x if axes <= 2 else op.Transpose(x, perm=[0, axes - 1, *range(1, axes - 1)])


def channels_last(op: Builder, x: ir.Value, axes: int) -> ir.Value:
    """Bring the second of so many axes to the last place."""
    return x if axes <= 2 else op.Transpose(x, perm=[0, *range(2, axes), 1])


def pad(op: Builder, x: ir.Value, pads: Sequence[int], value: np.ndarray) -> ir.Value:
    """Add elements at the starts and ends of axes, as ONNX orders them."""
    if not any(pads):
        return x
    if op.opset < _INPUTS_INSTEAD_OF_ATTRIBUTES["Pad"]:
        return op.Pad(x, pads=list(pads), value=float(value))
    return op.Pad(x, np.array(pads, np.int64), value)


def part(op: Builder, x: ir.Value, axis: int, start: int, end: int) -> ir.Value:
    """Take a part of one axis."""
    if op.opset < _INPUTS_INSTEAD_OF_ATTRIBUTES["Slice"]:
        return op.Slice(x, starts=[start], ends=[end], axes=[axis])
    return op.Slice(x, *(np.array([number], np.int64) for number in (start, end, axis)))


@dataclass(frozen=True)
class SlidingWindows:
    """How windows slide: for each axis the size, the step, the distance within a window; paddings as ONNX has them.

    With ``ceil`` a last window may hang over the end, unless it starts behind it.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    ceil: bool = False

    def __post_init__(self) -> None:
        axes = len(self.kernel)
        for name, default, length in (("strides", 1, axes), ("pads", 0, 2 * axes), ("dilations", 1, axes)):
            if not getattr(self, name):
                object.__setattr__(self, name, (default,) * length)
            if len(getattr(self, name)) != length:
                raise ModelError(f"windows over {axes} axes need {length} {name}, not {len(getattr(self, name))}")
        if min((*self.kernel, *self.strides, *self.dilations), default=1) < 1 or min(self.pads, default=0) < 0:
            raise ModelError("windows need positive sizes, steps and dilations, and no negative pads")

    def extent(self, axis: int) -> int:
        """Return how far a window reaches."""
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1

    def padding(self, axis: int) -> tuple[int, int]:
        """Return the padding before and behind."""
        return self.pads[axis], self.pads[axis + len(self.kernel)]

    def amount(self, axis: int, size: int) -> int:
        """Return how many windows there are along an axis of some size. Raises ModelError if not one fits."""
        before, behind = self.padding(axis)
        room, stride = size + before + behind - self.extent(axis), self.strides[axis]
        amount = (-(-room // stride) if self.ceil else room // stride) + 1
        if self.ceil and (amount - 1) * stride >= size + before:
            amount -= 1
        if room < 0 or amount < 1:
            raise ModelError(f"a window of {self.extent(axis)} does not fit into {size} with its padding")
        return amount

    def fit(self, sizes: Sequence[int]) -> bool:
        """Tell whether there is a window along all axes of these sizes."""
        return all(size + sum(self.padding(axis)) >= self.extent(axis) for axis, size in enumerate(sizes))

    def starts(self, axis: int, size: int) -> np.ndarray:
        """Return where windows start, counted from the start of the padding."""
        return np.arange(self.amount(axis, size), dtype=np.int64) * self.strides[axis]

    def offsets(self, axis: int) -> np.ndarray:
        """Return where the elements of a window are, counted from its start."""
        return np.arange(self.kernel[axis], dtype=np.int64) * self.dilations[axis]

    def of(self, x: np.ndarray, fill: Any) -> np.ndarray:
        """Return all windows of an image ``[N, …, C]``, as ``[N, windows…, kernel…, C]``."""
        if x.ndim != len(self.kernel) + 2:
            raise ModelError(f"windows over {len(self.kernel)} axes need as many between N and C, not {x.ndim - 2}")
        sizes = x.shape[1:-1]
        # A window that hangs over needs something there.
        over = [
            max(0, int(self.starts(a, n)[-1]) + self.extent(a) - n - sum(self.padding(a))) for a, n in enumerate(sizes)
        ]
        widths = [
            (before, behind + over[axis]) for axis, (before, behind) in enumerate(map(self.padding, range(len(sizes))))
        ]
        x = np.pad(x, [(0, 0), *widths, (0, 0)], constant_values=fill)
        index: list[Any] = [slice(None)]
        axes = 2 * len(sizes)
        for axis, size in enumerate(sizes):
            place = self.starts(axis, size)[:, None] + self.offsets(axis)
            shape = [1] * axes
            shape[axis], shape[axis + len(sizes)] = place.shape
            index.append(place.reshape(shape))
        return x[tuple(index)]

    def infer(self, ctx: ShapeInferenceContext, shape: ir.Shape, channels: Any) -> ir.Shape | None:
        """Return the shape of one result of ``channels`` elements for each window; sizes may have names."""
        if len(shape) != len(self.kernel) + 2:
            return None
        amounts: list[Any] = []
        for axis, size in enumerate(list(shape)[1:-1]):
            if isinstance(size, int):
                amounts.append(self.amount(axis, size))
            elif self.ceil:
                amounts.append(ctx.new_symbolic_dim())
            else:
                room = size + (sum(self.padding(axis)) - self.extent(axis))
                amounts.append(room // self.strides[axis] + 1)
        return ir.Shape([shape[0], *amounts, channels])


def sizes_between(shape: ir.Shape | None, what: str, where: str) -> tuple[int, ...]:
    """Return the sizes of the axes between N and C, which have to be known numbers."""
    sizes = () if shape is None else tuple(shape)[1:-1]
    known = tuple(size for size in sizes if isinstance(size, int))
    if shape is None or len(known) < len(sizes):
        raise ModelError(f"the height and width of {what} have to be known", where=where, hint="infer shapes first")
    return known
