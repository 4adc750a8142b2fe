"""Show a graph that is too large as a summary: repetitions once, with their number, and the rest in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.drawing.build import Block, read_values
from onnx_passes.graph.wording import operator_name

Item = ir.Node | Block

_LONGEST_PERIOD = 2000
_LEAST_HIDDEN = 4
"""Minimum number of nodes that a repetition must hide."""
_FAR = 50
"""Values of producers further away are treated as global, such as a mask that all layers read."""
_INSIDE = 60
"""Maximum number of nodes shown inside a block."""


@dataclass(frozen=True)
class _Repetition:
    start: int
    period: int
    times: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.times

    @property
    def hidden(self) -> int:
        return self.period * (self.times - 1)


def summarised(nodes: Sequence[ir.Node], limit: int) -> list[Item]:
    """Return at most about ``limit`` boxes for the nodes of a graph."""
    items = _folded(_in_natural_order(nodes))
    if len(items) <= limit:
        return items
    plain = sum(1 for item in items if isinstance(item, ir.Node))
    pieces = max(4, min(limit, 60) - (len(items) - plain))
    return _in_pieces(items, max(2, -(-plain // pieces)))


def _in_natural_order(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Move every node right after its operands, so that repetitions are equal for any order of nodes in a file."""
    inside = dict.fromkeys(nodes)
    order: dict[ir.Node, None] = {}
    entered: set[ir.Node] = set()
    sinks = [
        node for node in nodes if not any(reader in inside for value in node.outputs for reader, _ in value.uses())
    ]
    for start in (*sinks, *nodes):
        stack = [start]
        while stack:
            node = stack[-1]
            if node in order:
                stack.pop()
            elif node in entered:
                order[stack.pop()] = None
            else:
                entered.add(node)
                producers = [value.producer() for value in read_values(node)]
                stack.extend(p for p in reversed(producers) if p in inside and p not in entered)
    return list(order)


def _folded(nodes: Sequence[ir.Node]) -> list[Item]:
    """Replace repetitions, the largest first, by blocks."""
    numbers: dict[tuple[object, ...], int] = {}
    place = {node: number for number, node in enumerate(nodes)}
    tokens = np.array([numbers.setdefault(_token(node, place), len(numbers)) for node in nodes], dtype=np.int64)
    live = _live_values(nodes)
    items: list[Item] = []
    todo = [(0, len(nodes))]
    while todo:
        start, end = todo.pop()
        found = _largest_repetition(tokens, live, start, end)
        if found is None:
            items.extend(nodes[start:end])
        elif found.start > start:
            todo += [(found.start, end), (start, found.start)]
        else:
            items.append(_block(nodes[found.start : found.end], found))
            todo.append((found.end, end))
    return items


def _block(nodes: Sequence[ir.Node], found: _Repetition) -> Block:
    first, last = nodes[: found.period], nodes[-found.period :]
    inside = _folded(first)
    shown = tuple(inside) if len(inside) <= _INSIDE else ()
    return Block(tuple(nodes), shown, found.times, _scope(first, last))


def _token(node: ir.Node, place: Mapping[ir.Node, int]) -> tuple[object, ...]:
    """Return the key by which nodes repeat: operator, and distances of their operands."""
    distances: list[int | None] = []
    for value in read_values(node):
        producer = value.producer()
        distance = _FAR if producer is None else place[node] - place.get(producer, -_FAR)
        distances.append(distance if distance < _FAR else None)
    return operator_name(node), len(node.inputs), tuple(distances)


def _live_values(nodes: Sequence[ir.Node]) -> list[int]:
    """Count the values that cross each position from earlier to later nodes."""
    place = {node: number for number, node in enumerate(nodes)}
    change = [0] * (len(nodes) + 2)
    for number, node in enumerate(nodes):
        for value in node.outputs:
            last = max((place.get(reader, -1) for reader, _ in value.uses()), default=-1)
            if last > number:
                change[number + 1] += 1
                change[last + 1] -= 1
    return [int(total) for total in np.cumsum(change)]


def _largest_repetition(tokens: np.ndarray, live: Sequence[int], start: int, end: int) -> _Repetition | None:
    best: _Repetition | None = None
    part = tokens[start:end]
    for period in range(1, min(len(part) // 2, _LONGEST_PERIOD) + 1):
        if best is not None and len(part) - period <= best.hidden:
            break
        same = np.flatnonzero(np.concatenate(([True], part[period:] != part[:-period], [True])))
        runs = np.diff(same) - 1
        longest = int(runs.argmax())
        length = int(runs[longest])
        if length < period or (best is not None and length <= best.hidden):
            continue
        found = _best_start(live, start + int(same[longest]), period, length)
        if found.hidden >= _LEAST_HIDDEN and (best is None or found.hidden > best.hidden):
            best = found
    return best


def _best_start(live: Sequence[int], start: int, period: int, length: int) -> _Repetition:
    """Start a repetition where the fewest values cross, which is probably the boundary of a layer."""
    whole = (length + period) // period
    choices = [
        (live[start + offset] + 1.5 * (whole - times), _Repetition(start + offset, period, times))
        for offset in range(period)
        if (times := (length + period - offset) // period) >= 2
    ]
    return min(choices, key=lambda choice: choice[0])[1]


def _in_pieces(items: Sequence[Item], size: int) -> list[Item]:
    """Split runs of plain nodes into fragments, preferably at changes of scope."""
    result: list[Item] = []
    run: list[ir.Node] = []
    for item in (*items, None):
        if isinstance(item, ir.Node):
            if len(run) >= size // 2 and (len(run) >= 2 * size or _scope_of(run[-1]) != _scope_of(item)):
                result.append(_piece(run))
                run = []
            run.append(item)
            continue
        if run:
            result.append(_piece(run))
            run = []
        if item is not None:
            result.append(item)
    return result


def _piece(nodes: Sequence[ir.Node]) -> Item:
    return Block(tuple(nodes), name=_scope(nodes, nodes)) if len(nodes) > 1 else nodes[0]


def _scope_of(node: ir.Node) -> tuple[str, ...]:
    return tuple((node.name or "").strip("/").split("/")[:-1])


def _scope(first: Sequence[ir.Node], last: Sequence[ir.Node]) -> str:
    """Return the common prefix of names, with a star where repetitions differ."""
    a, b = (_common([_scope_of(node) for node in nodes]) for nodes in (first, last))
    return "/".join(x if x == y else "*" for x, y in zip(a, b, strict=False))


def _common(scopes: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    known = [scope for scope in scopes if scope]
    if not known:
        return ()
    low, high = min(known), max(known)
    shared = next((n for n, (x, y) in enumerate(zip(low, high, strict=False)) if x != y), min(len(low), len(high)))
    return low[:shared]
