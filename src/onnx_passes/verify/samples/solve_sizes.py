"""Sizes of dynamic dimensions that meet what the operators of a model require of them, found without running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import onnx_ir as ir

from onnx_passes.analysis.shapes.requirements import Requirement, requirements_of
from onnx_passes.verify.samples.sizes import Sizes, dimension_key

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
