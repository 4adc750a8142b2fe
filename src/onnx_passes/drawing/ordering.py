"""Order of the items in layers with few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort

from onnx_passes.drawing.layers import Layered

_SWEEPS = 12
_ENOUGH = 40_000
"""Total number of items sorted in all sweeps: large graphs have fewer sweeps."""


def order_layers(graph: Layered) -> None:
    """Sort layers by the positions of their neighbours, downwards and upwards in turn, and keep the best order."""
    _depth_first(graph)
    best, fewest = [list(layer) for layer in graph.layers], _crossings(graph)
    sweeps = min(_SWEEPS, max(2, _ENOUGH // (len(graph.down) + 1)))
    since = 0
    for sweep in range(sweeps):
        if not fewest or since == 4:
            break
        _sweep(graph, downwards=sweep % 2 == 0)
        crossings = _crossings(graph)
        since += 1
        if crossings < fewest:
            best, fewest, since = [list(layer) for layer in graph.layers], crossings, 0
    graph.layers[:] = best


def _depth_first(graph: Layered) -> None:
    """Start with the order of a depth-first walk along the wires, which keeps related items together."""
    seen: dict[int, int] = {}
    for start in (item for layer in graph.layers for item in layer):
        stack = [start]
        while stack:
            item = stack.pop()
            if item not in seen:
                seen[item] = len(seen)
                stack.extend(other for other in reversed(graph.down[item]) if other not in seen)
    for layer in graph.layers:
        layer.sort(key=lambda item: seen[item])


def _sweep(graph: Layered, *, downwards: bool) -> None:
    position = [0.0] * len(graph.down)
    neighbours = graph.up if downwards else graph.down
    layers = graph.layers if downwards else graph.layers[::-1]
    for layer in layers:
        wanted: dict[int, float] = {}
        for place, item in enumerate(layer):
            near = sorted(position[other] for other in neighbours[item])
            wanted[item] = _median(near) if near else place / len(layer)
        if layer is not layers[0]:
            layer.sort(key=lambda item: wanted[item])
        for place, item in enumerate(layer):
            position[item] = (place + 0.5) / len(layer)


def _median(places: list[float]) -> float:
    middle = len(places) // 2
    return places[middle] if len(places) % 2 else (places[middle - 1] + places[middle]) / 2


def _crossings(graph: Layered) -> int:
    total = 0
    for upper, lower in zip(graph.layers, graph.layers[1:], strict=False):
        place = {item: number for number, item in enumerate(lower)}
        ends: list[int] = []
        for item in upper:
            targets = sorted(place[other] for other in graph.down[item])
            total += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return total
