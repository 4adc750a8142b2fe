"""Elementwise chains behind values, and the values at which they cross decision boundaries, found by bisection.

The nodes behind a value that work element by element are copied into a model of their own, the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.assembly import Assembly
from onnx_passes.fragment.fragment import Prepared, Runtime
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.ops.facts.allowed_values import Array
from onnx_passes.ops.facts.critical_values import critical_values, is_continuous, moves_elements

_LONGEST = 40
"""So many nodes behind an input are followed."""
_MOST_VALUES = 30
_MOST_TARGETS = 128
_MOST_ELEMENTS = 4096


class NoBoundaryError(Exception):
    """A chain crosses no decision boundary for values of a shape."""


@dataclass(frozen=True)
class Goal:
    """A value behind an input, and what it should come close to."""

    value: int
    place: Array


@dataclass
class ElementwiseChain:
    """The nodes behind an input that work element by element, as a model of their own."""

    source: ir.Value
    model: ir.Model
    targets: list[Goal]
    sizes: list[tuple[int, ...]]
    """Shapes of the constants on the way, which decide where elements are treated alike."""


def chain_of(model: ir.Model, source: ir.Value) -> ElementwiseChain | None:
    """Follow a value through elementwise operators; None if none of them has critical values."""
    return _Builder(model, source).chain()


class _Builder:
    def __init__(self, model: ir.Model, source: ir.Value) -> None:
        self.model, self.source = model, source
        self.rank = 0 if source.shape is None else len(source.shape)
        self.is_integer = source.dtype is not None and source.dtype.is_integer()
        self.copies = Assembly(shapes="none", dtype_of=lambda _: None)
        self.copies.feed(source, ir.Value(type=ir.TensorType(source.dtype or ir.DataType.FLOAT)))
        self.moved: set[ir.Value] = set()
        self.sizes: list[tuple[int, ...]] = []

    def chain(self) -> ElementwiseChain | None:
        outputs: dict[ir.Value, int] = {}
        targets: list[Goal] = []
        todo = [self.source]
        while todo and len(self.copies.nodes) < _LONGEST:
            value = todo.pop(0)
            found = self._targets(value)
            if found and len(outputs) < _MOST_VALUES:
                at = outputs.setdefault(self.copies.values[value], len(outputs))
                targets += [Goal(at, place) for place in found]
            todo += [output for node, index in value.uses() if (output := self._follow(node, index)) is not None]
        if not targets:
            return None
        kept = targets if len(targets) <= _MOST_TARGETS else targets[:: -(-len(targets) // _MOST_TARGETS)]
        return ElementwiseChain(self.source, self.copies.model(self.model, outputs, name="chain"), kept, self.sizes)

    def _targets(self, value: ir.Value) -> list[Array]:
        # Integers have nothing to round.
        uses = [use for use in value.uses() if not (self.is_integer and use.node.op_type == "Cast")]
        found = [place for node, index in uses for place in critical_values(node, index, self.rank)]
        places = [place for place in found if place.size == 1 or value not in self.moved]
        unique = {(place.shape, place.tobytes()): place for place in places}
        return list(unique.values())

    def _follow(self, node: ir.Node, index: int) -> ir.Value | None:
        """Copy a node that treats its first input element by element; returns what it computes."""
        output = node.outputs[0] if node.outputs else None
        values = self.copies.values
        if output is None or output in values or node.graph is not self.model.graph or node.domain != "":
            return None
        value = node.inputs[index]
        assert value is not None
        if moves_elements(node) and index == 0:
            values[output] = values[value]
            self.moved.add(output)
            return output
        inputs = self._inputs(node, index)
        if inputs is None:
            return None
        self.copies.copy(node, inputs)
        if value in self.moved:
            self.moved.add(output)
        return output

    def _inputs(self, node: ir.Node, index: int) -> list[ir.Value | None] | None:
        value = node.inputs[index]
        assert value is not None
        if node.op_type == "BatchNormalization":
            if index != 0 or value in self.moved or node.attributes.get_int("training_mode", 0) or self.rank < 2:
                return None
        elif node.op_type == "Cast":
            target = ir.DataType(node.attributes.get_int("to", 0))
            if not target.is_floating_point() and not (self.is_integer and target.is_integer()):
                return None
        elif not is_continuous(node):
            return None
        inputs: list[ir.Value | None] = []
        for at, given in enumerate(node.inputs):
            tensor = constant_tensor(given)
            if at == index or given is None:
                inputs.append(self.copies.values[value] if at == index else None)
            elif tensor is None or (tensor.size > 1 and value in self.moved) or tensor.size > _MOST_ELEMENTS:
                return None
            else:
                shape = tuple(int(size) for size in tensor.shape.numpy())
                per_channel = node.op_type == "BatchNormalization"
                self.sizes.append((*shape, *(1,) * (self.rank - 2)) if per_channel else shape)
                inputs.append(self.copies.weight(tensor))
        return inputs


_LARGEST = 1e8
_SIDES = ((1, 0), (-1, 0), (2, 0), (1, 0.5), (-1, -0.5))
"""Where to look: the first number that reaches the target, the last that does not, the second that does; well beyond it
on one side and on the other, as a part of the number itself."""


class Solver:
    """Finds values of an input for which what is behind it comes to its critical values, by halving intervals."""

    def __init__(self, chain: ElementwiseChain, shape: Sequence[int], runtime: Runtime, seed: int) -> None:
        # By now a pass may have given the source another type.
        self.dtype = np.dtype((chain.model.graph.inputs[0].dtype or ir.DataType.FLOAT).numpy())
        targets = [target for target in chain.targets if _fits(target.place.shape, shape)]
        if not targets:
            raise NoBoundaryError("no critical value fits the shape")
        self.chain = chain = replace(chain, targets=targets)
        self.shape, self.free = _block(chain, tuple(shape))
        self._input = str(chain.model.graph.inputs[0].name)
        self._names = [str(value.name) for value in chain.model.graph.outputs]
        self._runtime = runtime
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
    def _ready(self) -> Prepared | None:
        computes = any(name != self._input for name in self._names)
        return self._runtime.prepare(self.chain.model, engine="onnxruntime") if computes else None

    def _is_below(self, order: Array, places: Array, chosen: Array) -> Array:
        x = _from_order(order, self.dtype)
        if self._ready is None:
            return x < places
        results = self._ready.run({self._input: x})
        arrays = [results[name] if name != self._input else x for name in self._names]
        if any(array.shape != self.shape for array in arrays):
            raise NoBoundaryError("a constant is larger than the input")
        values = arrays[0] if len(arrays) == 1 else np.choose(chosen, arrays)
        return values < places


def _fits(place: Sequence[int], shape: Sequence[int]) -> bool:
    """Return whether a critical value broadcasts to a shape without enlarging it."""
    if len(place) > len(shape):
        return False
    return all(size in (1, given) for size, given in zip(reversed(place), reversed(shape), strict=False))


def _block(chain: ElementwiseChain, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Cut axes along which all elements are treated alike; returns the shape, and how many elements that are."""
    alike = _alike(chain, len(shape))
    sizes = list(shape)
    for axis in reversed(range(len(shape))):
        if alike[axis] and np.prod(sizes) > _MOST_ELEMENTS:
            sizes[axis] = max(1, min(sizes[axis], int(_MOST_ELEMENTS * sizes[axis] // np.prod(sizes))))
    return tuple(sizes), int(np.prod([size for size, same in zip(sizes, alike, strict=True) if same]))


def _alike(chain: ElementwiseChain, rank: int) -> list[bool]:
    shapes = [*chain.sizes, *(target.place.shape for target in chain.targets)]
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes if len(shape) <= rank]
    return [all(shape[axis] == 1 for shape in padded) for axis in range(rank)]


def _turns(shape: tuple[int, ...], chain: ElementwiseChain) -> Array:
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
