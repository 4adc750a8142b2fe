"""Structural properties of models: each finds its violations, and they combine with ``&``, ``|`` and ``~``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.wording import name_of


def find_cycle(model: ir.Model) -> list[ir.Node]:
    """Return the nodes of a cycle, each before one that reads from it; an empty list for an acyclic model.

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
    """Yield the reads without or before a definition, in the order of the nodes."""
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


_SHOWN = 5


@dataclass(frozen=True)
class Violation:
    """A violation of a property: the message, and the names of the offending nodes or values."""

    property: str
    message: str
    offenders: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(self.offenders[:_SHOWN])
        more = f" and {len(self.offenders) - _SHOWN} more" if len(self.offenders) > _SHOWN else ""
        return f"{self.property}: {self.message}" + (f": {shown}{more}" if shown else "")


Find = Callable[[ir.Model, "ir.Model | None"], list[Violation]]


@dataclass(frozen=True, eq=False)
class Property:
    """A property that a model has or has not; graphs, subgraphs and functions are looked into.

    Its ``text`` says all about it: properties of the same text are equal. ``find`` lists what violates it, given the
    model and, where a pass is held to it, the model before, which some properties need.
    """

    text: str
    find: Find
    needs_before: bool = False

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """List the violations of the property; ``before`` is the input model of the pass."""
        return self.find(model, before)

    def holds(self, model: ir.Model, before: ir.Model | None = None) -> bool:
        """Return whether the model has the property."""
        return not self.find(model, before)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Property) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __and__(self, other: Property) -> Property:
        return all_of(self, other)

    def __or__(self, other: Property) -> Property:
        return any_of(self, other)

    def __invert__(self) -> Property:
        return not_(self)


def free_of(text: str, message: str, find: Callable[[ir.Model], list[str]]) -> Property:
    """Make a property of models in which nothing is found."""

    def violations(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        offenders = find(model)
        return [Violation(text, message, tuple(offenders))] if offenders else []

    return Property(text, violations)


def all_of(*properties: Property) -> Property:
    """Require all properties; each violation is that of the property it violates."""

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        return [violation for prop in properties for violation in prop.find(model, before)]

    return Property(_text("all-of", properties), find, _need_before(properties))


def any_of(*properties: Property) -> Property:
    """Require at least one property; if none holds, list the violations of each."""
    text = _text("any-of", properties)

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        found = [prop.find(model, before) for prop in properties]
        reasons = tuple(f"[{violations[0]}]" for violations in found if violations)
        return [Violation(text, "none of them holds", reasons)] if len(reasons) == len(found) else []

    return Property(text, find, _need_before(properties))


def not_(prop: Property) -> Property:
    """Require that a property does not hold."""
    text = _text("not", (prop,))

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        return [Violation(text, f"'{prop}' holds and should not")] if prop.holds(model, before) else []

    return Property(text, find, prop.needs_before)


def _text(name: str, properties: tuple[Property, ...]) -> str:
    return f"{name}({', '.join(map(str, properties))})"


def _need_before(properties: tuple[Property, ...]) -> bool:
    return any(prop.needs_before for prop in properties)


def scopes(model: ir.Model) -> Iterator[tuple[ir.Graph, str]]:
    """Yield the graph and the bodies of functions, each with the suffix for the names of its nodes."""
    yield model.graph, ""
    for function in model.functions.values():
        yield function.graph, in_function(function)


def function_name(function: ir.Function) -> str:
    """Return the name of a function with its domain and overload."""
    name = f"{function.domain}::{function.name}" if function.domain else function.name
    return f"{name}:{function.overload}" if function.overload else name


def in_function(function: ir.Function) -> str:
    """Return the suffix for the name of a node in a function."""
    return f" in function '{function_name(function)}'"


_OPERATOR = re.compile(r"(?:(?P<domain>[^\s:*]+)::)?(?P<type>[^\s:*]+|\*)")
_STANDARD = "ai.onnx"


class OperatorPattern(NamedTuple):
    """An operator, or all of a domain: ``Relu``, ``domain::Op``, ``domain::*``; without a domain, one of ONNX."""

    domain: str
    type: str

    @classmethod
    def parse(cls, text: str) -> OperatorPattern:
        """Read an operator; a standard one must exist, so that a misspelt name is not silently never found."""
        import onnx

        found = _OPERATOR.fullmatch(text)
        if found is None or text == "*":
            raise UsageError(f"'{text}' is no operator", hint="write Relu, domain::Op or domain::*")
        domain = "" if found["domain"] in (None, _STANDARD) else found["domain"]
        if not domain and found["type"] != "*" and not onnx.defs.has(found["type"]):
            schemas = onnx.defs.get_all_schemas()
            known = (schema.name for schema in schemas if not schema.domain)
            near = did_you_mean(found["type"], known)
            hint = f"write domain::{found['type']} if it is of another domain" + (f", or {near}" if near else "")
            raise UsageError(f"ONNX has no operator '{found['type']}'", hint=hint)
        return cls(domain, found["type"])

    def __str__(self) -> str:
        domain = self.domain or (_STANDARD if self.type == "*" else "")
        return f"{domain}::{self.type}" if domain else self.type


def only(*operators: str) -> Property:
    """Require all nodes to be of these operators: ``Relu``, ``domain::Op`` or ``domain::*``.

    A call of a function of the model is judged by the body of the function, unless the call itself is allowed:
    then its body is not looked into.
    """
    allowed = _patterns("only", operators)

    def others(model: ir.Model) -> list[str]:
        pending = {model.graph: ""}
        offenders: list[str] = []
        seen = set(pending)
        while pending:
            scope, suffix = pending.popitem()
            for node in scope.all_nodes():
                if _is_among(node, allowed):
                    continue
                function = model.functions.get(node.op_identifier())
                if function is None:
                    offenders.append(name_of(node) + suffix)
                elif function.graph not in seen:
                    seen.add(function.graph)
                    pending[function.graph] = in_function(function)
        return offenders

    return free_of(f"only({', '.join(map(str, allowed))})", "other operators are used", others)


def none_of(*operators: str) -> Property:
    """Require no node to be of these operators, in graphs and in the bodies of functions."""
    forbidden = _patterns("none-of", operators)
    text = f"none-of({', '.join(map(str, forbidden))})"
    return free_of(text, "forbidden operators are used", lambda model: _nodes_of(model, forbidden))


def at_most(operator_name: str, number: int) -> Property:
    """Require at most so many nodes of an operator; the body of a function counts once."""
    return _limit("at-most", operator_name, number, operator.le)


def at_least(operator_name: str, number: int) -> Property:
    """Require at least so many nodes of an operator; the body of a function counts once."""
    return _limit("at-least", operator_name, number, operator.ge)


def _limit(name: str, operator_name: str, number: int, allows: Callable[[int, int], bool]) -> Property:
    pattern = OperatorPattern.parse(operator_name)
    if number < 0:
        raise UsageError(f"'{name}' does not take the number {number}", hint="write 0 or more")
    text = f"{name}({pattern}, {number})"

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        found = _nodes_of(model, (pattern,))
        message = f"there {'is' if len(found) == 1 else 'are'} {len(found) or 'none'}"
        return [] if allows(len(found), number) else [Violation(text, message, tuple(found))]

    return Property(text, find)


def _patterns(name: str, operators: Collection[str]) -> tuple[OperatorPattern, ...]:
    if not operators:
        raise UsageError(f"'{name}' names no operator", hint=f"write {name}(OPERATOR, …)")
    return tuple(map(OperatorPattern.parse, operators))


def _nodes_of(model: ir.Model, operators: Collection[OperatorPattern]) -> list[str]:
    return [
        name_of(node) + suffix
        for scope, suffix in scopes(model)
        for node in scope.all_nodes()
        if _is_among(node, operators)
    ]


def _is_among(node: ir.Node, operators: Collection[OperatorPattern]) -> bool:
    domain = "" if node.domain == _STANDARD else node.domain
    return OperatorPattern(domain, node.op_type) in operators or OperatorPattern(domain, "*") in operators
