"""Structural properties of models: each finds what violates it, and they combine with ``&``, ``|`` and ``~``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx_ir as ir

_SHOWN = 5


@dataclass(frozen=True)
class Violation:
    """What is wrong, of which property, and the nodes or values that it is wrong with, by name."""

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
        """List what violates the property; ``before`` is the model that a pass was given."""
        return self.find(model, before)

    def holds(self, model: ir.Model, before: ir.Model | None = None) -> bool:
        """Say whether the model has the property."""
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
    """Require at least one property; where none holds, each says what violates it."""
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
    """Yield the graph and the bodies of functions, each with what to add to the names of nodes in it."""
    yield model.graph, ""
    for function in model.functions.values():
        yield function.graph, in_function(function)


def function_name(function: ir.Function) -> str:
    """Return the name of a function with its domain and overload."""
    name = f"{function.domain}::{function.name}" if function.domain else function.name
    return f"{name}:{function.overload}" if function.overload else name


def in_function(function: ir.Function) -> str:
    """Return what to add to the name of a node in a function."""
    return f" in function '{function_name(function)}'"
