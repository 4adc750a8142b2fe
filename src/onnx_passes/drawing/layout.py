"""Lay out the boxes and wires of a scene in layers with few crossings, starting with the insides of boxes."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onnx_passes.core.text import told_apart
from onnx_passes.drawing.columns import Margins, columns
from onnx_passes.drawing.layers import Layered, Net, layered
from onnx_passes.drawing.scene import Box, Scene, Wire

SMALL, NORMAL = 10.5, 12.0
HEAD, LINE, PAD = 24.0, 15.0, 10.0
END = 22.0
"""Height of an input or output of the graph."""
NAME = 30
"""Length to which names are shortened."""
_CAPTION = 18.0
_GAP, _LAYER_GAP, _MARGIN = 22.0, 36.0, 16.0
_BEND = Margins(4.0, 4.0)
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] "), frozenset("mwMW@%×…")

Point = tuple[float, float]


@dataclass(frozen=True)
class PlacedBox:
    """A box with its corner and size; positions of subgraphs are relative to the corner."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    inner: tuple[tuple[float, float, Placed], ...]


@dataclass(frozen=True)
class PlacedWire:
    """A wire as pairs of points: straight within a pair, curved to the next pair."""

    wire: Wire
    points: tuple[tuple[Point, Point], ...]
    label: tuple[float, float, str] | None


@dataclass(frozen=True)
class Placed:
    """A scene with all positions."""

    scene: Scene
    boxes: tuple[PlacedBox, ...]
    wires: tuple[PlacedWire, ...]
    width: float
    height: float


@dataclass(frozen=True)
class _Size:
    width: float
    height: float
    inner: tuple[tuple[float, float, Placed], ...] = ()


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a usual sans-serif font, rather too wide than too narrow."""
    return size * sum(0.37 if c in _NARROW else 0.95 if c in _WIDE else 0.7 if c.isupper() else 0.62 for c in text)


def lay_out(scene: Scene) -> Placed:
    """Lay out a scene from top to bottom."""
    apart = told_apart((box.name for box in scene.boxes), NAME)
    shown = [box if apart[box.name] == box.name else replace(box, name=apart[box.name]) for box in scene.boxes]
    sizes = [_size(box) for box in shown]
    number = {box.key: index for index, box in enumerate(scene.boxes)}
    groups: dict[tuple[int, str], list[Wire]] = {}
    for wire in scene.wires:
        groups.setdefault((number[wire.source], wire.net), []).append(wire)
    nets = [
        Net(source, tuple(number[w.target] for w in wires), faint=all(w.role == "removed" for w in wires))
        for (source, _), wires in groups.items()
    ]
    graph = layered(len(sizes), nets)
    order_layers(graph)
    labels = _labels_below(groups)
    extents = [_extent(size, labels.get(index, "")) for index, size in enumerate(sizes)]
    extents += [_BEND] * (len(graph.down) - len(sizes))
    middles = columns(graph, extents, _GAP)
    shift = _MARGIN - min((x - e.left for x, e in zip(middles, extents, strict=True)), default=0.0)
    middles = [x + shift for x in middles]
    tops, bottoms = _rows(graph, sizes, middles)
    level = {item: depth for depth, layer in enumerate(graph.layers) for item in layer}
    boxes = tuple(
        PlacedBox(box, middles[i] - size.width / 2, tops[level[i]], size.width, size.height, size.inner)
        for i, (box, size) in enumerate(zip(shown, sizes, strict=True))
    )
    wires: list[PlacedWire] = []
    for group, paths in zip(groups.items(), graph.paths, strict=True):
        (source, _), members = group
        for position, (wire, path) in enumerate(zip(members, paths, strict=True)):
            stops = [(middles[item], tops[level[item]], bottoms[level[item]]) for item in path]
            start = (middles[source], boxes[source].y + boxes[source].height, bottoms[level[source]])
            target = number[wire.target]
            end = (middles[target], boxes[target].y, boxes[target].y)
            points = tuple(((x, top), (x, bottom)) for x, top, bottom in (start, *stops, end))
            label = _label(wire, points, below=source in labels) if position == 0 else None
            wires.append(PlacedWire(wire, points, label))
    width = max((x + e.right for x, e in zip(middles, extents, strict=True)), default=0.0) + _MARGIN
    return Placed(scene, boxes, tuple(wires), width, (bottoms[-1] if bottoms else 0.0) + _MARGIN)


def _size(box: Box) -> _Size:
    if not box.is_card:
        return _Size(text_width(box.title, NORMAL) + 22, END)
    texts = [text_width(box.title, NORMAL) * 1.08 + (36 if box.role else 20)]
    if box.name:
        texts.append(text_width(box.name, SMALL) + 16)
    texts += [text_width(row.label, SMALL) + text_width(row.text, SMALL) + 30 for row in box.rows]
    lines = len(box.rows) + bool(box.name)
    width, height = max(64.0, *texts), HEAD + (lines * LINE + 8 if lines else 0)
    inner: list[tuple[float, float, Placed]] = []
    x = PAD
    for scene in box.inner:
        placed = lay_out(scene)
        caption = _CAPTION if scene.title else 0.0
        inner.append((x, height + caption, placed))
        x += max(placed.width, text_width(scene.title, SMALL) + 20) + PAD
    if not inner:
        return _Size(width, height)
    height += max(dy - height + placed.height for _, dy, placed in inner) + PAD
    spare = max(0.0, width - x) / 2
    return _Size(max(width, x), height, tuple((dx + spare, dy, placed) for dx, dy, placed in inner))


def _labels_below(groups: dict[tuple[int, str], list[Wire]]) -> dict[int, str]:
    """Return the labels of values that are placed below their box: single labels of a box."""
    nets: dict[int, list[str]] = {}
    for (source, _), wires in groups.items():
        nets.setdefault(source, []).append(wires[0].label)
    return {source: labels[0] for source, labels in nets.items() if len(labels) == 1}


def _extent(size: _Size, label: str) -> Margins:
    half = size.width / 2
    return Margins(half, max(half, text_width(label, SMALL) + 8 if label else 0.0))


def _rows(graph: Layered, sizes: Sequence[_Size], middles: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the top and bottom of layers; layers with long horizontal wires get more room."""
    tops: list[float] = []
    bottoms: list[float] = []
    y = _MARGIN
    for layer in graph.layers:
        tops.append(y)
        bottoms.append(y + max((sizes[item].height for item in layer if not graph.is_bend(item)), default=0.0))
        aside = max((abs(middles[a] - middles[b]) for a in layer for b in graph.down[a]), default=0.0)
        y = bottoms[-1] + _LAYER_GAP + min(aside / 12, 40.0)
    return tops, bottoms


def _label(wire: Wire, points: Sequence[tuple[Point, Point]], *, below: bool) -> tuple[float, float, str] | None:
    if not wire.label:
        return None
    (_, (x, y)), ((after, under), _) = points[0], points[1]
    if below:
        return x + 6, y + 14, wire.label
    return after + 6, under - 12, wire.label


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
