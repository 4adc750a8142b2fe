"""Values of an input for which what is computed from it comes to given values, found by halving intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.run.execute import Executable, ExecutionError, Executor
from onnx_passes.verify.samples.chains import Chain
from onnx_passes.verify.samples.reference import Array

_MOST_ELEMENTS = 4096
_LARGEST = 1e8
_SIDES = ((1, 0), (-1, 0), (2, 0), (1, 0.5), (-1, -0.5))
"""Where to look: the first number that reaches the target, the last that does not, the second that does; well beyond it
on one side and on the other, as a part of the number itself."""


class Solver:
    """Finds values of an input for which what is behind it comes to its critical values, by halving intervals."""

    def __init__(self, chain: Chain, shape: Sequence[int], executor: Executor, seed: int) -> None:
        # By now a pass may have given the source another type.
        self.dtype = np.dtype((chain.model.graph.inputs[0].dtype or ir.DataType.FLOAT).numpy())
        targets = [target for target in chain.targets if _fits(target.place.shape, shape)]
        if not targets:
            raise ExecutionError("no critical value fits the shape")
        self.chain = chain = replace(chain, targets=targets)
        self.shape, self.free = _block(chain, tuple(shape))
        self._names = [str(value.name) for value in chain.model.graph.outputs]
        self._executor = executor
        self._order = np.random.default_rng(seed).permutation(len(targets))

    @property
    def rounds(self) -> int:
        """Return how many samples it takes to see every target from all sides."""
        return -(-len(_SIDES) * len(self.chain.targets) // max(self.free, 1))

    def solve(self, number: int) -> tuple[Array, Array]:
        """Return values for a block of elements, and which of them are there; other numbers give other ones."""
        places, chosen, side = self._choose(number)
        missed, reached, found = self._bisect(places, chosen)
        onward = np.sign(reached - missed)
        near, far = np.array([near for near, _ in _SIDES])[side], np.array([far for _, far in _SIDES])[side]
        beside = np.where(far == 0, near - np.sign(near), 0)
        values = _from_order(np.where(near > 0, reached, missed) + onward * beside, self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            values = values + (onward * far * np.maximum(np.abs(values), 1)).astype(self.dtype)
            # What overflows on its way is a matter of special values.
            usual = np.abs(values) <= _LARGEST if self.dtype.kind == "f" else found
        return values, np.logical_and(found, usual)

    def _choose(self, number: int) -> tuple[Array, Array, Array]:
        """Give every element a target and a side of it, in turn where elements are treated alike."""
        targets = self.chain.targets
        turn = _turns(self.shape, self.chain) + number * self.free
        place = self._order[turn % len(targets)]
        side = turn // len(targets) % len(_SIDES)
        arrays = np.stack([np.broadcast_to(_typed(t.place, self.dtype), self.shape) for t in targets])
        places = np.take_along_axis(arrays, place[None], 0)[0]
        chosen = np.array([t.value for t in targets])[place]
        return places, chosen, side

    def _bisect(self, places: Array, chosen: Array) -> tuple[Array, Array, Array]:
        ends = [_to_order(np.full(self.shape, end, self.dtype)) for end in self._ends]
        below = [self._is_below(end, places, chosen) for end in ends]
        crosses = below[0] != below[1]
        low, high = np.where(crosses, ends[0], ends[1]), np.where(crosses, ends[1], ends[2])
        at_low, at_high = np.where(crosses, below[0], below[1]), np.where(crosses, below[1], below[2])
        found = at_low != at_high
        for _ in range(8 * self.dtype.itemsize + 1):
            middle = low + (high - low) // 2
            same = self._is_below(middle, places, chosen) == at_low
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        # Values may grow or fall with the input.
        return np.where(at_low, low, high), np.where(at_low, high, low), found

    @property
    def _ends(self) -> tuple[float, float, float]:
        """Return the least number, one in between, and the greatest one."""
        if self.dtype.kind == "f":
            most = np.finfo(self.dtype).max
            return -most, 0, most
        info = np.iinfo(self.dtype)
        if info.bits < 64 and all(node.op_type == "Cast" for node in self.chain.model.graph):
            return info.min, (info.min + info.max) // 2, info.max
        # Sums and negations would wrap around at the ends of the type, those of the search for 64 bits.
        most = info.max // 2
        return (-most, 0, most) if info.min else (0, most // 2, most)

    @cached_property
    def _ready(self) -> Executable | None:
        computes = any(name != "x" for name in self._names)
        return self._executor.prepare(self.chain.model, engine="onnxruntime") if computes else None

    def _is_below(self, order: Array, places: Array, chosen: Array) -> Array:
        x = _from_order(order, self.dtype)
        if self._ready is None:
            return x < places
        results = self._ready.run({"x": x})
        arrays = [results[name] if name != "x" else x for name in self._names]
        if any(array.shape != self.shape for array in arrays):
            raise ExecutionError("a constant is larger than the input")
        values = arrays[0] if len(arrays) == 1 else np.choose(chosen, arrays)
        return values < places


def _fits(place: Sequence[int], shape: Sequence[int]) -> bool:
    """Tell whether a critical value belongs to elements of the shape, and to no more of them."""
    if len(place) > len(shape):
        return False
    return all(size in (1, given) for size, given in zip(reversed(place), reversed(shape), strict=False))


def _block(chain: Chain, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Cut axes along which all elements are treated alike; returns the shape, and how many elements that are."""
    alike = _alike(chain, len(shape))
    sizes = list(shape)
    for axis in reversed(range(len(shape))):
        if alike[axis] and np.prod(sizes) > _MOST_ELEMENTS:
            sizes[axis] = max(1, min(sizes[axis], int(_MOST_ELEMENTS * sizes[axis] // np.prod(sizes))))
    return tuple(sizes), int(np.prod([size for size, same in zip(sizes, alike, strict=True) if same]))


def _alike(chain: Chain, rank: int) -> list[bool]:
    shapes = [*chain.sizes, *(target.place.shape for target in chain.targets)]
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes if len(shape) <= rank]
    return [all(shape[axis] == 1 for shape in padded) for axis in range(rank)]


def _turns(shape: tuple[int, ...], chain: Chain) -> Array:
    """Count the elements that are treated alike, from zero on."""
    alike = _alike(chain, len(shape))
    inner = [size if same else 1 for size, same in zip(shape, alike, strict=True)]
    return np.broadcast_to(np.arange(int(np.prod(inner))).reshape(inner), shape)


def _typed(place: Array, dtype: np.dtype) -> Array:
    with np.errstate(over="ignore"):
        return place.astype(np.float64) if dtype.kind in "iu" else place.astype(dtype)


def _to_order(values: Array) -> Array:
    """Return integers in the order of the numbers, neighbours one apart."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    bits = values.view(f"i{values.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.int64(np.iinfo(f"i{values.dtype.itemsize}").min) - bits, bits)


def _from_order(order: Array, dtype: np.dtype) -> Array:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(np.clip(order, info.min, info.max)).astype(dtype)
    least = np.int64(np.iinfo(f"i{dtype.itemsize}").min)
    return np.asarray(np.where(order < 0, least - np.minimum(order, 0), order)).astype(f"i{dtype.itemsize}").view(dtype)
