"""Windows that slide over the middle axes of an image whose channels come last, and names of axis orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.shapes import dimension, rank

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
        """Return whether there is a window along all axes of these sizes."""
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


_LARGEST_MULTIPLE = 1 << 16


def windows_of(node: ir.Node, kernel: Sequence[int]) -> SlidingWindows | None:
    """Return how the windows of a node slide over its first input; None if sizes are unknown."""
    sizes, axes = image_sizes(node), len(kernel)
    if sizes is None or len(sizes) != axes:
        return None
    pads = pads_of(node, kernel)
    if pads is None or min(pads, default=0) < 0:
        return None
    strides = tuple(node.attributes.get_ints("strides") or (1,) * axes)
    dilations = tuple(node.attributes.get_ints("dilations") or (1,) * axes)
    return SlidingWindows(tuple(kernel), strides, tuple(pads), dilations, bool(node.attributes.get_int("ceil_mode", 0)))


def pads_of(node: ir.Node, kernel: Sequence[int]) -> list[int] | None:
    """Return the padding of a node, computed for automatic padding; None if that needs unknown sizes."""
    axes, mode = len(kernel), node.attributes.get_string("auto_pad", "NOTSET")
    if mode == "VALID" or not mode.startswith("SAME"):
        return [0] * 2 * axes if mode == "VALID" else list(node.attributes.get_ints("pads") or (0,) * 2 * axes)
    strides = node.attributes.get_ints("strides") or (1,) * axes
    dilations = node.attributes.get_ints("dilations") or (1,) * axes
    reach = [step * (size - 1) + 1 for step, size in zip(dilations, kernel, strict=True)]
    # Windows that move by single steps are as many as places, however many these are.
    sizes = image_sizes(node) or ([1] * axes if all(stride == 1 for stride in strides) else None)
    if sizes is None or len(sizes) != axes:
        return None
    needed = [
        max((-(-size // stride) - 1) * stride + extent - size, 0)
        for size, stride, extent in zip(sizes, strides, reach, strict=True)
    ]
    less, more = [each // 2 for each in needed], [each - each // 2 for each in needed]
    return [*less, *more] if mode == "SAME_UPPER" else [*more, *less]


def image_sizes(node: ir.Node) -> list[int] | None:
    """Return the sizes of an image behind batch and channels, if all are known."""
    x = node.inputs[0]
    found = [dimension(x, axis) for axis in range(2, rank(x) or 0)]
    known = [size for size in found if size is not None]
    return known if found and len(known) == len(found) else None


def met(windows: SlidingWindows, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return for each axis, as ``[windows, taps]``, which taps of which window meet the image."""
    found: list[np.ndarray] = []
    for axis, size in enumerate(sizes):
        place = windows.starts(axis, size)[:, None] + windows.offsets(axis) - windows.padding(axis)[0]
        found.append((place >= 0) & (place < size))
    return found


def counts(windows: SlidingWindows, sizes: Sequence[int]) -> np.ndarray:
    """Return how many elements of the image each window holds, in the shape of the windows."""
    total = np.ones((1,) * len(sizes), np.int64)
    for axis, inside in enumerate(met(windows, sizes)):
        total = total * inside.sum(axis=1).reshape([-1 if other == axis else 1 for other in range(len(sizes))])
    return total


class Averaged(NamedTuple):
    """Averages of windows in terms of their sums: each is ``sum * factors / multiple``."""

    factors: np.ndarray
    multiple: int


def averaged(node: ir.Node) -> Averaged | None:
    """Return the divisors of the windows of an AveragePool, as integer factors of one fraction.

    None if sizes are not known, if padding counts for windows that hang over it, which runtimes divide
    differently, or if no moderate number is a multiple of all numbers of elements.
    """
    kernel = node.attributes.get_ints("kernel_shape")
    windows, sizes = None if not kernel else windows_of(node, kernel), image_sizes(node)
    if windows is None or sizes is None:
        return None
    held = counts(windows, sizes)
    if node.attributes.get_int("count_include_pad", 0):
        if windows.ceil:
            return None
        held = np.full(held.shape, int(np.prod(windows.kernel)))
    if (held == 0).any():
        return None
    multiple = int(np.lcm.reduce(held.reshape(-1)))
    return Averaged(multiple // held, multiple) if multiple <= _LARGEST_MULTIPLE else None
