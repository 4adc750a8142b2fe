"""Assign horizontal positions to the items of ordered layers: straight wires first, then compactness.

The method of Brandes and Köpf, "Fast and simple horizontal coordinate assignment" (2001): items are aligned with their
median neighbours into blocks, from each of the four corners; blocks are moved together, and the four results averaged.
Here the neighbour on the longest path takes precedence over the median, so that the trunk of a network is straight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from onnx_passes.drawing.layers import Layered


@dataclass(frozen=True)
class Margins:
    """Room that an item needs on either side of its middle."""

    left: float
    right: float


def columns(graph: Layered, extents: Sequence[Margins], gap: float) -> list[float]:
    """Return the middle of every item."""
    crossed, trunk = _crossed_segments(graph), _trunk(graph)
    below = {upper: item for item, upper in trunk.items()}
    candidates: list[list[float]] = []
    for downwards in (True, False):
        for leftmost in (True, False):
            layers = [layer if leftmost else layer[::-1] for layer in graph.layers]
            sides = [(e.left, e.right) if leftmost else (e.right, e.left) for e in extents]
            near = graph.up if downwards else graph.down
            ordered = layers if downwards else layers[::-1]
            blocks = _blocks(ordered, near, crossed, *((trunk, below) if downwards else (below, trunk)))
            places = _compacted(layers, blocks, sides, gap)
            candidates.append(places if leftmost else [-place for place in places])
    return _balanced(candidates, extents)


def _crossed_segments(graph: Layered) -> set[tuple[int, int]]:
    """Return the segments that cross one between two bends: long wires stay straight."""
    crossed: set[tuple[int, int]] = set()
    for upper, lower in pairwise(graph.layers):
        place = {item: number for number, item in enumerate(upper)}
        scanned, low = 0, 0
        for number, item in enumerate(lower):
            partner = next((u for u in graph.up[item] if graph.is_bend(u)), None) if graph.is_bend(item) else None
            if partner is None and number < len(lower) - 1:
                continue
            high = len(upper) - 1 if partner is None else place[partner]
            for other in lower[scanned : number + 1]:
                for above in graph.up[other]:
                    inner = graph.is_bend(other) and graph.is_bend(above)
                    if not inner and not low <= place[above] <= high:
                        crossed.update(((above, other), (other, above)))
            scanned, low = number + 1, high
    return crossed


def _trunk(graph: Layered) -> dict[int, int]:
    """Pair items with the item above that is, for both of them, on the longest path through the graph."""
    chosen: dict[int, int] = {}
    for item, above in enumerate(graph.up):
        if above:
            upper = max(above, key=lambda other: (graph.depth[other], not graph.is_bend(other)))
            lower = max(graph.down[upper], key=lambda other: (graph.height[other], not graph.is_bend(other)))
            if lower == item:
                chosen[item] = upper
    return chosen


def _blocks(
    layers: Iterable[Sequence[int]],
    near: Sequence[Sequence[int]],
    crossed: set[tuple[int, int]],
    wanted: Mapping[int, int],
    back: Mapping[int, int],
) -> list[int]:
    """Align every item with a neighbour in the layer before, unless that crosses; return the heads of blocks."""
    head = list(range(len(near)))
    taken = [False] * len(near)
    place: dict[int, int] = {}
    for layer in layers:
        reached = -1
        for item in layer:
            neighbours = sorted((n for n in near[item] if n in place), key=place.__getitem__)
            for other in _preferred(item, neighbours, wanted, back):
                if head[item] == item and place[other] > reached and (item, other) not in crossed and not taken[other]:
                    head[item] = head[other]
                    taken[other] = True
                    reached = place[other]
        place = {item: number for number, item in enumerate(layer)}
    return head


def _preferred(item: int, neighbours: Sequence[int], wanted: Mapping[int, int], back: Mapping[int, int]) -> list[int]:
    """List the neighbours to align with: the one of the trunk, or the median ones if these are free."""
    if wanted.get(item) in neighbours:
        return [wanted[item]]
    if not neighbours:
        return []
    middle = (len(neighbours) - 1) / 2
    medians = [neighbours[number] for number in sorted({int(middle), int(middle + 0.5)})]
    return [other for other in medians if other not in back]


def _compacted(
    layers: Sequence[Sequence[int]], head: Sequence[int], sides: Sequence[tuple[float, float]], gap: float
) -> list[float]:
    """Place blocks as far left as possible, and then right again as far as their successors leave room."""
    right_of: dict[int, dict[int, float]] = {item: {} for item in head}
    waiting = dict.fromkeys(right_of, 0)
    for layer in layers:
        for a, b in pairwise(layer):
            apart = sides[a][1] + sides[b][0] + gap
            rooms = right_of[head[a]]
            if head[b] not in rooms:
                waiting[head[b]] += 1
            rooms[head[b]] = max(rooms.get(head[b], 0.0), apart)
    left: dict[int, float] = dict.fromkeys(right_of, 0.0)
    order = [block for block, count in waiting.items() if not count]
    for block in order:
        for other, apart in right_of[block].items():
            left[other] = max(left[other], left[block] + apart)
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    for block in reversed(order):
        if right_of[block]:
            left[block] = max(left[block], min(left[other] - apart for other, apart in right_of[block].items()))
    return [left[block] for block in head]


def _balanced(candidates: Sequence[list[float]], extents: Sequence[Margins]) -> list[float]:
    """Shift the four results to the narrowest one, and average the two middle ones."""
    spans = [
        (
            min((x - e.left for x, e in zip(places, extents, strict=True)), default=0.0),
            max((x + e.right for x, e in zip(places, extents, strict=True)), default=0.0),
        )
        for places in candidates
    ]
    low, high = min(spans, key=lambda span: span[1] - span[0])
    shifts = [low - span[0] if number % 2 == 0 else high - span[1] for number, span in enumerate(spans)]
    middle: list[float] = []
    for places in zip(*candidates, strict=True):
        shifted = sorted(x + shift for x, shift in zip(places, shifts, strict=True))
        middle.append((shifted[1] + shifted[2]) / 2)
    return middle
