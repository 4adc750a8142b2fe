"""Structural properties of models: each finds what violates it, and they combine with ``&``, ``|`` and ``~``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.options import quote
from onnx_passes.graph.isomorphism import Relaxation, isomorphic

BEFORE = "before"
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


@dataclass(frozen=True)
class Property(ABC):
    """A property that a model has or has not; graphs, subgraphs and functions are looked into."""

    name: ClassVar[str]

    @abstractmethod
    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """List what violates the property; ``before`` is the model that a pass was given."""

    def holds(self, model: ir.Model, before: ir.Model | None = None) -> bool:
        """Say whether the model has the property."""
        return not self.violations(model, before)

    @property
    def needs_before(self) -> bool:
        """Tell whether the property compares with the model before a pass."""
        return False

    def arguments(self) -> tuple[str, ...]:
        """Return the arguments as text."""
        return ()

    def __str__(self) -> str:
        arguments = self.arguments()
        return f"{self.name}({', '.join(arguments)})" if arguments else self.name

    def __and__(self, other: Property) -> AllOf:
        return AllOf((self, other))

    def __or__(self, other: Property) -> AnyOf:
        return AnyOf((self, other))

    def __invert__(self) -> Not:
        return Not(self)

    def _violated(self, message: str, offenders: list[str]) -> list[Violation]:
        return [Violation(str(self), message, tuple(offenders))] if offenders else []


@dataclass(frozen=True)
class _Several(Property):
    properties: tuple[Property, ...]

    def __post_init__(self) -> None:
        if not self.properties:
            raise UsageError(f"'{self.name}' names no property", hint=f"write {self.name}(PROPERTY, …)")

    @property
    def needs_before(self) -> bool:
        """Tell whether any of the properties does."""
        return any(prop.needs_before for prop in self.properties)

    def arguments(self) -> tuple[str, ...]:
        """Return the properties as text."""
        return tuple(map(str, self.properties))


@dataclass(frozen=True)
class AllOf(_Several):
    """All of several properties hold; each violation is that of the property it violates."""

    name = "all-of"

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """List the violations of all properties."""
        return [violation for prop in self.properties for violation in prop.violations(model, before)]


@dataclass(frozen=True)
class AnyOf(_Several):
    """At least one of several properties holds."""

    name = "any-of"

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Say for every property what violates it, if none holds."""
        reasons: list[str] = []
        for prop in self.properties:
            found = prop.violations(model, before)
            if not found:
                return []
            reasons.append(str(found[0]))
        return [Violation(str(self), "none of them holds", tuple(f"[{reason}]" for reason in reasons))]


@dataclass(frozen=True)
class Not(Property):
    """A property does not hold."""

    name = "not"
    inner: Property

    @property
    def needs_before(self) -> bool:
        """Tell whether the property does."""
        return self.inner.needs_before

    def arguments(self) -> tuple[str, ...]:
        """Return the property as text."""
        return (str(self.inner),)

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Say that the property holds, if it does."""
        holds = self.inner.holds(model, before)
        return [Violation(str(self), f"'{self.inner}' holds and should not")] if holds else []


@dataclass(frozen=True)
class Free(Property):
    """A property without arguments: nothing is found that violates it."""

    name: str  # pyright: ignore[reportIncompatibleVariableOverride]
    message: str = field(repr=False)
    find: Callable[[ir.Model], list[str]] = field(repr=False)

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Name what is found."""
        return self._violated(self.message, self.find(model))


@dataclass(frozen=True)
class Isomorphic(Property):
    """The model is wired like another, whatever everything is called: a file, or the model before a pass.

    ``ignore`` relaxes the comparison: ``constants`` leaves out the elements of tensors, ``attributes`` all
    attributes but graphs.
    """

    name = "isomorphic"
    reference: str
    ignore: tuple[Relaxation, ...] = ()

    def __post_init__(self) -> None:
        for word in self.ignore:
            if word not in ("constants", "attributes"):
                hint = did_you_mean(word, ("constants", "attributes")) or "ignore constants or attributes"
                raise UsageError(f"'{self.name}' cannot ignore '{word}'", hint=hint)

    @property
    def needs_before(self) -> bool:
        """Tell whether the reference is the model before a pass."""
        return self.reference == BEFORE

    def arguments(self) -> tuple[str, ...]:
        """Return the reference and what is ignored."""
        return (quote(self.reference), *self.ignore)

    def violations(self, model: ir.Model, before: ir.Model | None = None) -> list[Violation]:
        """Say where the model differs from the reference."""
        reference = self._load(before)
        if isomorphic(model, reference, ignore=(*self.ignore, "interface")):
            return []
        message = f"not wired like {'the model before' if self.needs_before else self.reference}"
        return [Violation(str(self), message, self._differences(model, reference))]

    def _load(self, before: ir.Model | None) -> ir.Model:
        from onnx_passes.graph.load import load

        if not self.needs_before:
            return load(self.reference)
        if before is None:
            raise UsageError(f"there is no model before to compare with for '{self}'", hint="give it a file instead")
        return before

    def _differences(self, model: ir.Model, reference: ir.Model) -> tuple[str, ...]:
        from onnx_passes.graph.equality import compare
        from onnx_passes.graph.hashing.content import Contents
        from onnx_passes.graph.lockstep import Difference

        # The first difference may be one that is ignored.
        outcome = None if self.ignore else compare(model, reference, Contents(), names=False)
        return (str(outcome),) if isinstance(outcome, Difference) else ()


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
