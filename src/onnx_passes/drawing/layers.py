"""Assign every box to a layer below its operands, and every long wire a position in the layers that it crosses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_BENDS = 30_000
"""Wires across more layers than this have no bends."""


@dataclass(frozen=True)
class Net:
    """One value: its source and target boxes; a faint one is never part of the trunk."""

    source: int
    targets: tuple[int, ...]
    faint: bool = False


@dataclass
class Layered:
    """Boxes and bends of wires in layers; numbers below ``boxes`` are boxes, the others bends.

    ``paths`` has for every net and target the bends on the way; ``down`` and ``up`` are neighbours in the next layer
    and in the one before. ``depth`` and ``height`` count the boxes on the longest way from a source and to a sink,
    along nets that are not faint.
    """

    boxes: int
    layers: list[list[int]]
    paths: list[list[list[int]]]
    down: list[list[int]] = field(default_factory=list[list[int]])
    up: list[list[int]] = field(default_factory=list[list[int]])
    depth: list[int] = field(default_factory=list[int])
    height: list[int] = field(default_factory=list[int])

    def is_bend(self, item: int) -> bool:
        """Return whether an item is a crossing of a wire through a layer."""
        return item >= self.boxes


def layered(boxes: int, nets: Sequence[Net]) -> Layered:
    """Assign boxes to layers: as high as their sources allow, or lower if that shortens wires."""
    layer, depth, height = _layer_numbers(boxes, nets)
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for box in range(boxes):
        layers[layer[box]].append(box)
    result = Layered(boxes, layers, [], depth=depth, height=height)
    links: dict[tuple[int, int], None] = {}
    bends = boxes
    budget = _MOST_BENDS
    for net in nets:
        last = max((layer[target] for target in net.targets), default=layer[net.source])
        needed = range(layer[net.source] + 1, last)
        if len(needed) > budget:
            result.paths.append([[] for _ in net.targets])
            continue
        budget -= len(needed)
        chain = [net.source]
        for at in needed:
            layers[at].append(bends)
            chain.append(bends)
            result.depth.append(depth[net.source])
            result.height.append(max(height[target] for target in net.targets if layer[target] > at))
            bends += 1
        paths: list[list[int]] = []
        for target in net.targets:
            span = layer[target] - layer[net.source]
            if span > 0:
                links.update(dict.fromkeys(zip(chain[:span], [*chain[1:span], target], strict=True)))
            paths.append(chain[1 : max(span, 1)])
        result.paths.append(paths)
    result.down = [[] for _ in range(bends)]
    result.up = [[] for _ in range(bends)]
    for upper, lower in links:
        result.down[upper].append(lower)
        result.up[lower].append(upper)
    return result


def _layer_numbers(boxes: int, nets: Sequence[Net]) -> tuple[list[int], list[int], list[int]]:
    after: list[list[int]] = [[] for _ in range(boxes)]
    plain: set[tuple[int, int]] = set()
    for net in nets:
        after[net.source].extend(target for target in net.targets if target != net.source)
        plain.update((net.source, target) for target in net.targets if not net.faint)
    order, after = _acyclic(after)
    sources, layer, depth, height = ([0] * boxes for _ in range(4))
    for box in order:
        for target in after[box]:
            sources[target] += 1
            layer[target] = max(layer[target], layer[box] + 1)
            if (box, target) in plain:
                depth[target] = max(depth[target], depth[box] + 1)
    for box in reversed(order):
        height[box] = max((height[target] + 1 for target in after[box] if (box, target) in plain), default=0)
        if after[box] and len(after[box]) >= sources[box]:
            layer[box] = min(layer[target] for target in after[box]) - 1
    return layer, depth, height


def _acyclic(after: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Return a topological order, ignoring back edges."""
    state = [0] * len(after)
    finished: list[int] = []
    kept: list[list[int]] = [[] for _ in after]
    for start in range(len(after)):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            box, targets = stack[-1]
            for target in targets:
                if state[target] == 1:
                    continue
                kept[box].append(target)
                if not state[target]:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
            else:
                state[box] = 2
                finished.append(box)
                stack.pop()
    return finished[::-1], kept
