"""The vocabulary of structural properties, in Python and as text.

``at_most("Relu", 3) & acyclic`` is ``parse_property("all-of(at-most(Relu, 3), acyclic)")``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.naming import kebab
from onnx_passes.graph import annotations
from onnx_passes.graph.isomorphism import Relaxation
from onnx_passes.graph.liveness import Reaching
from onnx_passes.graph.wording import describe, name_of, value_text
from onnx_passes.verify.structure.flow import bad_reads, find_cycle
from onnx_passes.verify.structure.operator_properties import AtLeast, AtMost, NoneOf, Only, OperatorPattern
from onnx_passes.verify.structure.properties import (
    BEFORE,
    AllOf,
    AnyOf,
    Free,
    Isomorphic,
    Not,
    Property,
    Violation,
    function_name,
    scopes,
)
from onnx_passes.verify.structure.property_text import Term, read_term

__all__ = [
    "BEFORE",
    "Property",
    "Violation",
    "acyclic",
    "all_of",
    "any_of",
    "at_least",
    "at_most",
    "connected",
    "isomorphic",
    "no_dangling_values",
    "no_dead_nodes",
    "no_functions",
    "none_of",
    "not_",
    "only",
    "parse_property",
    "single_assignment",
    "sorted_nodes",
    "static_shapes",
]


def _on_a_cycle(model: ir.Model) -> list[str]:
    return [name_of(node) for node in find_cycle(model)]


def _loose_ends(model: ir.Model) -> list[str]:
    found: list[str] = []
    for scope, suffix in scopes(model):
        reaching = Reaching(scope)
        if scope is model.graph:
            found.extend(f"input '{value.name}'" for value in scope.inputs if value not in reaching.values)
        found.extend(name_of(node) + suffix for node in reaching.cut_off())
    return found


def _dead_nodes(model: ir.Model) -> list[str]:
    return [name_of(node) + suffix for scope, suffix in scopes(model) for node in Reaching(scope, kept=True).cut_off()]


def _defined_twice(model: ir.Model) -> list[str]:
    found: list[str] = []
    for scope, suffix in scopes(model):
        definitions: defaultdict[str, list[ir.Value]] = defaultdict(list)
        for value in annotations.values(scope):
            if value.name:
                definitions[value.name].append(value)
        for name, values in definitions.items():
            if len(values) > 1:
                found.append(f"'{name}' ({' and '.join(map(describe, values))}){suffix}")
    return found


def _read(model: ir.Model, *, late: bool) -> list[str]:
    found: list[str] = []
    for scope, suffix in scopes(model):
        for read in bad_reads(scope):
            if read.is_late is late:
                reader = name_of(read.reader) if isinstance(read.reader, ir.Node) else f"graph '{read.reader.name}'"
                verb = "reads" if isinstance(read.reader, ir.Node) else "returns"
                found.append(f"{reader} {verb} '{read.value.name}'{suffix}")
    return found


def _undefined(model: ir.Model) -> list[str]:
    return _read(model, late=False)


def _too_early(model: ir.Model) -> list[str]:
    return _read(model, late=True)


def _without_static_shape(model: ir.Model) -> list[str]:
    return [value_text(value) for value in annotations.values(model.graph) if not _is_static(value)]


def _is_static(value: ir.Value) -> bool:
    if value.shape is None:
        # An output without a name is one that the node does not compute.
        return value.const_value is not None or not value.name
    return value.shape.is_static()


def _functions(model: ir.Model) -> list[str]:
    return [f"'{function_name(function)}'" for function in model.functions.values()]


acyclic = Free("acyclic", "there is a cycle", _on_a_cycle)
"""No node depends on its own output, directly or through others, and no function calls itself."""

connected = Free("connected", "no output is reached from", _loose_ends)
"""Every node and every input of the model reaches an output: no islands and no loose ends.

Several pieces are fine if each reaches an output; inputs of subgraphs and functions need not be used.
"""

no_dead_nodes = Free("no-dead-nodes", "no output depends on", _dead_nodes)
"""No node could be removed; one whose result the annotation of a value in use names is not dead."""

single_assignment = Free("single-assignment", "defined more than once", _defined_twice)
"""Every name of a value is defined once in a graph and its subgraphs, and in each function."""

no_dangling_values = Free("no-dangling-values", "nothing in sight defines what is used", _undefined)
"""Nothing is read, and no output returned, that neither the graph itself nor one around it defines."""

sorted_nodes = Free("sorted", "used before it is computed", _too_early)
"""Every node comes after those that it and its subgraphs read from."""

static_shapes = Free("static-shapes", "the shape is not known in numbers", _without_static_shape)
"""All shapes in the graph and its subgraphs are known; those in functions depend on the call and do not count."""

no_functions = Free("no-functions", "the model has functions", _functions)
"""The model defines no functions."""


def only(*operators: str) -> Only:
    """Require all nodes to be of these operators: ``Relu``, ``domain::Op`` or ``domain::*``."""
    return Only(tuple(map(OperatorPattern.parse, operators)))


def none_of(*operators: str) -> NoneOf:
    """Require no node to be of these operators."""
    return NoneOf(tuple(map(OperatorPattern.parse, operators)))


def at_most(operator: str, number: int) -> AtMost:
    """Require at most so many nodes of an operator."""
    return AtMost(OperatorPattern.parse(operator), number)


def at_least(operator: str, number: int) -> AtLeast:
    """Require at least so many nodes of an operator."""
    return AtLeast(OperatorPattern.parse(operator), number)


def isomorphic(reference: str | os.PathLike[str], ignore: Iterable[Relaxation] = ()) -> Isomorphic:
    """Require the wiring of the model in a file, or of the one ``before`` the pass, up to names."""
    return Isomorphic(os.fspath(reference), tuple(ignore))


def all_of(*properties: Property | str) -> AllOf:
    """Require all of the properties."""
    return AllOf(tuple(map(parse_property, properties)))


def any_of(*properties: Property | str) -> AnyOf:
    """Require at least one of the properties."""
    return AnyOf(tuple(map(parse_property, properties)))


def not_(prop: Property | str) -> Not:
    """Require that a property does not hold."""
    return Not(parse_property(prop))


def parse_property(written: object) -> Property:
    """Read a property from text, ``at-most(Relu, 3)``, or from data, ``{"at-most": {"Relu": 3}}``.

    A property itself stays as it is.
    """
    return written if isinstance(written, Property) else _property(read_term(written))


def _property(term: Term) -> Property:
    name = kebab(term.text)
    name = _ALIASES.get(name, name)
    if name in _FREE:
        if term.arguments:
            raise UsageError(f"property '{name}' takes no arguments", hint=f"write '{name}' instead of '{term}'")
        return _FREE[name]
    form = _FORMS.get(name)
    if form is None:
        known = (*_FREE, *_FORMS, *_ALIASES)
        hint = did_you_mean(name, known) or f"the properties are {', '.join(known)}"
        raise UsageError(f"there is no property '{term.text}'", hint=hint)
    made = form.make(term.arguments or ())
    if made is None:
        raise UsageError(f"property '{name}' does not fit '{term}'", hint=f"write {name}({form.takes})")
    return made


def _words(terms: Iterable[Term]) -> list[str] | None:
    terms = list(terms)
    return [term.text for term in terms] if terms and all(term.arguments is None for term in terms) else None


def _with_operators(make: Callable[..., Property]) -> Callable[[tuple[Term, ...]], Property | None]:
    def form(terms: tuple[Term, ...]) -> Property | None:
        words = _words(terms)
        return None if words is None else make(*words)

    return form


def _with_number(make: Callable[[str, int], Property]) -> Callable[[tuple[Term, ...]], Property | None]:
    def form(terms: tuple[Term, ...]) -> Property | None:
        match _words(terms):
            case [operator, number] if number.isdecimal():
                return make(operator, int(number))
            case _:
                return None

    return form


def _with_reference(terms: tuple[Term, ...]) -> Property | None:
    words = _words(terms)
    return None if words is None else isomorphic(words[0], cast("list[Relaxation]", words[1:]))


def _with_properties(
    make: Callable[..., Property], most: int | None = None
) -> Callable[[tuple[Term, ...]], Property | None]:
    def form(terms: tuple[Term, ...]) -> Property | None:
        fits = terms and (most is None or len(terms) <= most)
        return make(*map(_property, terms)) if fits else None

    return form


@dataclass(frozen=True)
class _Form:
    takes: str
    make: Callable[[tuple[Term, ...]], Property | None]


_FREE = {
    prop.name: prop
    for prop in (
        acyclic,
        connected,
        single_assignment,
        no_dangling_values,
        no_dead_nodes,
        sorted_nodes,
        static_shapes,
        no_functions,
    )
}
_FORMS = {
    "only": _Form("OPERATOR, …", _with_operators(only)),
    "none-of": _Form("OPERATOR, …", _with_operators(none_of)),
    "at-most": _Form("OPERATOR, NUMBER", _with_number(at_most)),
    "at-least": _Form("OPERATOR, NUMBER", _with_number(at_least)),
    "isomorphic": _Form("FILE or before, constants, attributes", _with_reference),
    "all-of": _Form("PROPERTY, …", _with_properties(all_of)),
    "any-of": _Form("PROPERTY, …", _with_properties(any_of)),
    "not": _Form("PROPERTY", _with_properties(not_, most=1)),
}
_ALIASES = {"allowed-operators": "only", "forbidden-operators": "none-of"}
