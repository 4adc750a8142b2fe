"""Walk over graphs: find cycles, reads that make no sense, and what reaches an output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.graph.edits import subgraphs_of


def find_cycle(model: ir.Model) -> list[ir.Node]:
    """Return the nodes of a cycle, each before one that reads from it; none if there is no cycle.

    A node depends on what it reads, on its subgraphs, and on the function that it calls.
    """
    bodies = {identifier: function.graph for identifier, function in model.functions.items()}
    done: set[ir.Node | ir.Graph] = set()
    for start in (model.graph, *bodies.values()):
        way: dict[ir.Node | ir.Graph, Iterator[ir.Node | ir.Graph]] = {}
        if start not in done:
            way[start] = iter(start)
        while way:
            place, needed = next(reversed(way.items()))
            following = next((n for n in needed if n not in done), None)
            if following is None:
                del way[place]
                done.add(place)
            elif following in way:
                steps = list(way)
                cycle = steps[steps.index(following) :]
                return [step for step in reversed(cycle) if isinstance(step, ir.Node)]
            else:
                way[following] = iter(following) if isinstance(following, ir.Graph) else _needs(following, bodies)
    return []


def _needs(node: ir.Node, bodies: dict[ir.OperatorIdentifier, ir.Graph]) -> Iterator[ir.Node | ir.Graph]:
    for value in node.inputs:
        producer = None if value is None else value.producer()
        if producer is not None:
            yield producer
    yield from subgraphs_of(node)
    body = bodies.get(node.op_identifier())
    if body is not None:
        yield body


class BadRead(NamedTuple):
    """A value read where nothing defines it, or before it is defined; ``reader`` is a graph if it is an output."""

    reader: ir.Node | ir.Graph
    value: ir.Value
    is_late: bool


def bad_reads(scope: ir.Graph) -> Iterator[BadRead]:
    """Yield what is read without or before a definition, in the order in which the nodes stand."""
    in_sight: set[ir.Graph | None] = set()
    finished: set[ir.Node] = set()
    agenda: list[tuple[ir.Node | ir.Graph, bool]] = [(scope, False)]

    def judge(reader: ir.Node | ir.Graph, values: Iterable[ir.Value | None]) -> Iterator[BadRead]:
        for value in values:
            if value is None:
                continue
            producer = value.producer()
            if _home(value) not in in_sight:
                yield BadRead(reader, value, is_late=False)
            elif producer is not None and producer not in finished:
                yield BadRead(reader, value, is_late=True)

    while agenda:
        place, leaving = agenda.pop()
        if not leaving:
            agenda.append((place, True))
        if isinstance(place, ir.Node):
            if leaving:
                finished.add(place)
            else:
                yield from judge(place, place.inputs)
                agenda.extend((graph, False) for graph in reversed(subgraphs_of(place)))
        elif leaving:
            yield from judge(place, place.outputs)
            in_sight.discard(place)
        else:
            in_sight.add(place)
            agenda.extend((node, False) for node in reversed(place))


def _home(value: ir.Value) -> ir.Graph | None:
    """Return the graph that defines a value; being an output of a graph defines nothing."""
    producer = value.producer()
    if producer is not None:
        return producer.graph
    return value.graph if value.is_graph_input() or value.is_initializer() else None
