"""Choose sizes for dynamic dimensions that satisfy what the operators of a model require of their shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

import onnx_ir as ir

from onnx_passes.analysis.shapes.requirements import Requirement, requirements_of
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.traits import traits_of
from onnx_passes.ops.facts.inputs import DEMANDS, Indices, needs_room, passes_on

_MOST_TRIALS = 2000
_LARGEST = 2048
"""Sizes of more are not tried."""


class SizeSolver:
    """The requirements of a model on its dynamic dimensions, and sizes that meet them.

    ``names`` are the dimensions as they are called on the command line, in the order of inputs.
    """

    def __init__(self, model: ir.Model, names: Sequence[str]) -> None:
        self._model = model
        self._aliases = {name: f"size_{place}" for place, name in enumerate(names)}
        self._met: dict[Requirement, None] = {}

    @cached_property
    def requirements(self) -> Sequence[Requirement]:
        """Return what nodes require, in terms of the aliases of dimensions; found when somebody first asks."""
        keys = {
            (str(value.name), axis): self._aliases[key]
            for value in self._model.graph.inputs
            for axis, dim in enumerate(value.shape or ())
            if (key := dimension_key(str(value.name), axis, dim)) in self._aliases
        }
        return requirements_of(self._model, keys)

    def solve(self, wanted: Sizes, fixed: Sizes) -> Sizes | None:
        """Return sizes close to the wanted ones that meet all requirements; None if few changes do not reach any."""
        start = self._aliased(wanted)
        held = frozenset(self._aliases[name] for name in fixed)
        found = _repaired(start, self.requirements, held)
        if found is None:
            return None
        self._met.update(dict.fromkeys(each for each in self.requirements if not each.holds(start)))
        return {name: found[alias] for name, alias in self._aliases.items()}

    def unmet(self, sizes: Sizes) -> str:
        """Return the first requirement that sizes do not meet, and its node, as text; empty if they meet all."""
        known = self._aliased(sizes)
        wrong = next((each for each in self.requirements if not each.holds(known)), None)
        return "" if wrong is None else f"{wrong.node} requires {self._named(wrong)}"

    def __str__(self) -> str:
        """Return the requirements that sizes did not meet before they were solved; of bounds only the largest."""
        bounds: dict[object, Requirement] = {}
        for each in self._met:
            other = bounds.setdefault(each.left if each.kind == "at least" else each, each)
            if _bound(each) > _bound(other):
                bounds[each.left] = each
        return ", ".join(dict.fromkeys(map(self._named, bounds.values())))

    def _aliased(self, sizes: Sizes) -> dict[str, int]:
        return {alias: sizes[name] for name, alias in self._aliases.items()}

    def _named(self, requirement: Requirement) -> str:
        text = str(requirement)
        for name, alias in sorted(self._aliases.items(), key=lambda item: -len(item[1])):
            text = text.replace(alias, name)
        return text


def _repaired(
    start: Mapping[str, int], requirements: Sequence[Requirement], held: frozenset[str]
) -> dict[str, int] | None:
    """Change one size after the other until all requirements hold; sizes that were changed before are changed last."""
    waiting: list[tuple[dict[str, int], tuple[str, ...]]] = [(dict(start), ())]
    seen: set[tuple[int, ...]] = set()
    while waiting and len(seen) < _MOST_TRIALS:
        sizes, changed = waiting.pop()
        key = tuple(sizes.values())
        if key in seen:
            continue
        seen.add(key)
        wrong = next((each for each in requirements if not each.holds(sizes)), None)
        if wrong is None:
            return sizes
        free = sorted(wrong.symbols & sizes.keys() - held, key=lambda name: (name in changed, -_place(name)))
        options = [(name, size) for name in free for size in _values(wrong, name, sizes)]
        # The last one is taken first.
        waiting += [({**sizes, name: size}, (*changed, name)) for name, size in reversed(options)]
    return None


def _place(alias: str) -> int:
    return int(alias.rpartition("_")[2])


def _values(wrong: Requirement, name: str, sizes: Mapping[str, int]) -> Iterator[int]:
    """Yield values of a dimension with which a requirement holds: the nearest one, then multiples that are usual."""
    now, count = sizes[name], 0
    for distance in range(1, _LARGEST):
        for size in (now + distance, now - distance):
            if size >= 1 and wrong.holds({**sizes, name: size}):
                yield size
                count += 1
        if count:
            break
    if wrong.kind == "broadcast" and wrong.holds({**sizes, name: 1}):
        yield 1


def _bound(requirement: Requirement) -> int:
    return requirement.right if requirement.kind == "at least" and isinstance(requirement.right, int) else 0


Sizes = Mapping[str, int]

UNLIKE = 3
"""The first sample in which dynamic dimensions of different names have different sizes."""
_MORE = 9
"""More than one would expect to be counted one by one."""


def reached(model: ir.Model, value: ir.Value, *, calculated: bool = False) -> Iterator[tuple[ir.Node, int]]:
    """Yield where the values of an input arrive, unchanged but for their place, calls of functions included.

    With ``calculated`` also what elementwise operators make of them.
    """
    todo, seen = [value], {value}
    while todo:
        for node, index in todo.pop().uses():
            yield node, index
            function = model.functions.get(node.op_identifier())
            if function is not None:
                onward = function.inputs[index : index + 1]
            elif passes_on(node, index) or (calculated and traits_of(node).kind == "elementwise"):
                onward = node.outputs
            else:
                continue
            todo += [value for value in onward if value not in seen]
            seen.update(onward)


def dimension_key(name: str, axis: int, dim: int | ir.SymbolicDim) -> str | None:
    """Return what a dynamic dimension is called; some exporters write -1 for an unknown one."""
    if isinstance(dim, int):
        return None if dim >= 0 else f"{name}[{axis}]"
    return dim.value or f"{name}[{axis}]"


def dynamic_dimensions(model: ir.Model, inputs: Mapping[str, ir.Value]) -> dict[str, int]:
    """Return the dynamic dimensions, each with the least size that the operators there are likely to accept."""
    found: dict[str, int] = {}
    for name, value in inputs.items():
        dims = cast("ir.Shape", value.shape).dims
        keys = [dimension_key(name, axis, dim) for axis, dim in enumerate(dims)]
        image = len(dims) == 4 and sum(key is not None for key in keys[1:]) >= 2
        roomy = image or (any(keys[1:]) and _reaches_window(model, value))
        least = 1 if not roomy else 32 if len(dims) >= 4 else 512
        for axis, key in enumerate(keys):
            if key is not None:
                found[key] = min(found.get(key, least), least if axis else 1)
    return found


def _reaches_window(model: ir.Model, value: ir.Value) -> bool:
    return any(needs_room(node) for node, _ in reached(model, value, calculated=True))


def sizes_of_sample(
    found: Mapping[str, int], number: int, given: Mapping[str, int], *, usual: int = UNLIKE + 1, wide: int = 0
) -> dict[str, int]:
    """Choose the sizes of dynamic dimensions in one sample.

    In the first samples all are alike, since exporters have several names for one dimension; every fourth has as many
    sizes as names, since what mixes dimensions up shows on no others. After the ``usual`` samples sizes are larger,
    since what counts to some limit shows on no small ones; if ``wide`` is given, they are at least that.
    """
    sizes: dict[str, int] = {}
    for place, (key, least) in enumerate(found.items()):
        if wide:
            sizes[key] = given.get(key, max(least, wide))
            continue
        varied = place + 1 if number % 4 == UNLIKE else number
        if number >= usual:
            more = _MORE + (place if number % 4 == UNLIKE else 0) + (number - usual) % 3
            sizes[key] = given.get(key, more if least == 1 else least + more - _MORE + 1)
            continue
        sizes[key] = given.get(key, least * (1 + varied % (8 if least == 1 else 3)))
    for key in found:
        # Exporters name dimensions after others, such as 'past + 1'; what they name must be there to be believed.
        if key not in given and re.fullmatch(r"[\w .+*()-]+", key) and re.search(r"[+*-]", key) and "**" not in key:
            try:
                dim = ir.SymbolicDim(key)
                size = dim.evaluate(sizes) if dim.free_symbols() <= sizes.keys() - {key} else None
            except (ValueError, TypeError):
                continue
            if isinstance(size, int) and size >= 0:
                sizes[key] = size
    return sizes


def shape_of(value: ir.Value, sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of an input in one sample."""
    dims = cast("ir.Shape", value.shape).dims
    keys = [dimension_key(str(value.name), axis, dim) for axis, dim in enumerate(dims)]
    return tuple(cast("int", dim) if key is None else sizes[key] for key, dim in zip(keys, dims, strict=True))


def demanded(model: ir.Model, value: ir.Value, sizes: Sizes, *, floats: bool = False) -> tuple[int, int] | None:
    """Return the range that every operator reached accepts, if any cares; for floats, as indices only."""
    low, high = None, None
    for node, index in reached(model, value):
        found = (DEMANDS.get(node) or {}).get(index)
        if isinstance(found, Indices):
            table = argument(node, found.into)
            found = None if table is None else (0, max(_rows(node, table, sizes, value) - 1, 0))
        elif floats:
            found = None
        if (node.domain, node.op_type, index) == ("", "OneHot", 0):
            depth = constant(node.inputs[1])
            found = 0, max(int(depth.reshape(-1)[0]) - 1, 0) if depth is not None and depth.size else 0
        if found is not None:
            low = found[0] if low is None else max(low, found[0])
            high = found[1] if high is None else min(high, found[1])
    return None if low is None or high is None else (low, max(low, high))


def _rows(node: ir.Node, table: ir.Value | None, sizes: Sizes, indices: ir.Value) -> int:
    """Count what indices can point at; one where the size is not known, since the first is always there."""
    tensor = constant_tensor(table)
    shape = tensor.shape if tensor is not None else None if table is None else table.shape
    if shape is None or len(shape) == 0:
        return 1
    dims = [d if isinstance(d, int) else sizes.get(str(d.value), 1) for d in cast("ir.Shape", shape)]
    if node.op_type.endswith("ND"):
        # Of each place there are as many indices as the last axis of them is long.
        length = indices.shape[-1] if indices.shape else None
        first = node.attributes.get_int("batch_dims", 0)
        return min(dims[first : first + length] if isinstance(length, int) else dims, default=1)
    axis = node.attributes.get_int("axis", 0)
    return dims[axis] if -len(dims) <= axis < len(dims) else 1
