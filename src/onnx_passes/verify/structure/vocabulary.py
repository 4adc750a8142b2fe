"""The vocabulary of structural properties, in Python and as text.

``at_most("Relu", 3) & acyclic`` is ``parse_property("all-of(at-most(Relu, 3), acyclic)")``.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, cast

import onnx_ir as ir

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.core.naming import kebab
from onnx_passes.core.options import quote
from onnx_passes.graph import annotations, isomorphism
from onnx_passes.graph.equality import compare
from onnx_passes.graph.hashing.content import Contents
from onnx_passes.graph.isomorphism import Relaxation
from onnx_passes.graph.liveness import LiveParts
from onnx_passes.graph.lockstep import FirstDifference
from onnx_passes.graph.wording import describe, name_of, value_text
from onnx_passes.verify.structure import properties
from onnx_passes.verify.structure.properties import (
    Property,
    Violation,
    at_least,
    at_most,
    bad_reads,
    find_cycle,
    free_of,
    function_name,
    none_of,
    only,
    scopes,
)

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


BEFORE = "before"


def _on_a_cycle(model: ir.Model) -> list[str]:
    return [name_of(node) for node in find_cycle(model)]


def _loose_ends(model: ir.Model) -> list[str]:
    found: list[str] = []
    for scope, suffix in scopes(model):
        reaching = LiveParts(scope)
        if scope is model.graph:
            found.extend(f"input '{value.name}'" for value in scope.inputs if value not in reaching.values)
        found.extend(name_of(node) + suffix for node in reaching.cut_off())
    return found


def _dead_nodes(model: ir.Model) -> list[str]:
    return [name_of(node) + suffix for scope, suffix in scopes(model) for node in LiveParts(scope, kept=True).cut_off()]


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


def _without_static_shape(model: ir.Model) -> list[str]:
    return [value_text(value) for value in annotations.values(model.graph) if not _is_static(value)]


def _is_static(value: ir.Value) -> bool:
    if value.shape is None:
        # An output without a name is one that the node does not compute.
        return value.const_value is not None or not value.name
    return value.shape.is_static()


def _functions(model: ir.Model) -> list[str]:
    return [f"'{function_name(function)}'" for function in model.functions.values()]


acyclic = free_of("acyclic", "there is a cycle", _on_a_cycle)
"""No node depends on its own output, directly or through others, and no function calls itself."""

connected = free_of("connected", "no output is reached from", _loose_ends)
"""Every node and every input of the model reaches an output: no islands and no loose ends.

Several pieces are fine if each reaches an output; inputs of subgraphs and functions need not be used.
"""

no_dead_nodes = free_of("no-dead-nodes", "no output depends on", _dead_nodes)
"""No node could be removed; one whose result the annotation of a value in use names is not dead."""

single_assignment = free_of("single-assignment", "defined more than once", _defined_twice)
"""Every name of a value is defined once in a graph and its subgraphs, and in each function."""

no_dangling_values = free_of("no-dangling-values", "nothing in sight defines what is used", partial(_read, late=False))
"""Nothing is read, and no output returned, that neither the graph itself nor one around it defines."""

sorted_nodes = free_of("sorted", "used before it is computed", partial(_read, late=True))
"""Every node comes after those that it and its subgraphs read from."""

static_shapes = free_of("static-shapes", "the shape is not known in numbers", _without_static_shape)
"""All shapes in the graph and its subgraphs are known; those in functions depend on the call and do not count."""

no_functions = free_of("no-functions", "the model has functions", _functions)
"""The model defines no functions."""


def isomorphic(reference: str | os.PathLike[str], ignore: Iterable[Relaxation] = ()) -> Property:
    """Require the wiring of the model in a file, or of the one ``before`` the pass, under any names.

    ``ignore`` relaxes the comparison: ``constants`` leaves out the elements of tensors, ``attributes`` all attributes
    but graphs.
    """
    path, ignored = os.fspath(reference), tuple(ignore)
    for word in ignored:
        if word not in ("constants", "attributes"):
            hint = did_you_mean(word, ("constants", "attributes")) or "ignore constants or attributes"
            raise UsageError(f"'isomorphic' cannot ignore '{word}'", hint=hint)
    text = f"isomorphic({', '.join((quote(path), *ignored))})"

    def find(model: ir.Model, before: ir.Model | None) -> list[Violation]:
        other = _reference(path, text, before)
        if isomorphism.isomorphic(model, other, ignore=(*ignored, "interface")):
            return []
        # The first difference may be one that is ignored.
        outcome = None if ignored else compare(model, other, Contents(), names=False)
        difference = (str(outcome),) if isinstance(outcome, FirstDifference) else ()
        return [Violation(text, f"not wired like {'the model before' if path == BEFORE else path}", difference)]

    return Property(text, find, needs_before=path == BEFORE)


def _reference(path: str, text: str, before: ir.Model | None) -> ir.Model:
    from onnx_passes.graph.load import load

    if path != BEFORE:
        return load(path)
    if before is None:
        raise UsageError(f"there is no model before to compare with for '{text}'", hint="give it a file instead")
    return before


def all_of(*written: Property | str) -> Property:
    """Require all of the properties."""
    return properties.all_of(*_several("all-of", written))


def any_of(*written: Property | str) -> Property:
    """Require at least one of the properties."""
    return properties.any_of(*_several("any-of", written))


def not_(prop: Property | str) -> Property:
    """Require that a property does not hold."""
    return properties.not_(parse_property(prop))


def _several(name: str, written: Sequence[Property | str]) -> Iterable[Property]:
    if not written:
        raise UsageError(f"'{name}' names no property", hint=f"write {name}(PROPERTY, …)")
    return map(parse_property, written)


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
    if name not in _FORMS:
        known = (*_FREE, *_FORMS, *_ALIASES)
        hint = did_you_mean(name, known) or f"the properties are {', '.join(known)}"
        raise UsageError(f"there is no property '{term.text}'", hint=hint)
    takes, make = _FORMS[name]
    made = make(term.arguments or ())
    if made is None:
        raise UsageError(f"property '{name}' does not fit '{term}'", hint=f"write {name}({takes})")
    return made


def _words(terms: Sequence[Term]) -> list[str]:
    return [term.text for term in terms] if all(term.arguments is None for term in terms) else []


def _limited(make: Callable[[str, int], Property], terms: Sequence[Term]) -> Property | None:
    match _words(terms):
        case [operator, number] if number.isdecimal():
            return make(operator, int(number))
        case _:
            return None


def _of_operators(make: Callable[..., Property], terms: Sequence[Term]) -> Property | None:
    words = _words(terms)
    return make(*words) if words else None


def _of_reference(terms: Sequence[Term]) -> Property | None:
    words = _words(terms)
    return isomorphic(words[0], cast("list[Relaxation]", words[1:])) if words else None


def _of_properties(make: Callable[..., Property], terms: Sequence[Term]) -> Property | None:
    fits = len(terms) == 1 if make is not_ else terms
    return make(*map(_property, terms)) if fits else None


_FREE = {
    prop.text: prop
    for prop in (
        *(acyclic, connected, single_assignment, no_dangling_values),
        *(no_dead_nodes, sorted_nodes, static_shapes, no_functions),
    )
}
_FORMS: dict[str, tuple[str, Callable[[Sequence[Term]], Property | None]]] = {
    "only": ("OPERATOR, …", partial(_of_operators, only)),
    "none-of": ("OPERATOR, …", partial(_of_operators, none_of)),
    "at-most": ("OPERATOR, NUMBER", partial(_limited, at_most)),
    "at-least": ("OPERATOR, NUMBER", partial(_limited, at_least)),
    "isomorphic": ("FILE or before, constants, attributes", _of_reference),
    "all-of": ("PROPERTY, …", partial(_of_properties, all_of)),
    "any-of": ("PROPERTY, …", partial(_of_properties, any_of)),
    "not": ("PROPERTY", partial(_of_properties, not_)),
}
"""What stands in the parentheses of a property, for people, and what is made of it."""
_ALIASES = {"allowed-operators": "only", "forbidden-operators": "none-of"}


_DEEPEST = 50
_OF_PROPERTIES = ("all-of", "any-of", "not")


@dataclass(frozen=True)
class Term:
    """A word or quoted text, and its arguments in parentheses."""

    text: str
    arguments: tuple[Term, ...] | None

    def __str__(self) -> str:
        return self.text if self.arguments is None else f"{self.text}({', '.join(map(str, self.arguments))})"


def parse_term(text: str) -> Term:
    """Parse the text of a property into terms, without resolving them."""
    return _Reader(text).read()


def read_term(data: object, depth: int = 0) -> Term:
    """Read a property from text or from data, as a configuration has them: ``{"at-most": {"Relu": 3}}``.

    Where there are several keys, all of them are meant.
    """
    if isinstance(data, str):
        return parse_term(data)
    if not isinstance(data, Mapping) or not data:
        raise UsageError(f"{data!r} is no property", hint='write text, as in "at-most(Relu, 3)"')
    if depth > _DEEPEST:
        raise UsageError(f"more than {_DEEPEST} levels of nesting", where="property")
    entries = cast(Mapping[object, object], data).items()
    terms = [term for name, value in entries for term in _terms(str(name), value, depth)]
    return terms[0] if len(terms) == 1 else Term("all-of", tuple(terms))


def _terms(name: str, value: object, depth: int) -> list[Term]:
    """Parse the values listed under the name of a property."""
    items = cast(list[object], value if isinstance(value, list) else [] if value is None else [value])
    if kebab(name) in _OF_PROPERTIES:
        return [Term(name, tuple(read_term(item, depth + 1) for item in items))]
    if isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return [Term(name, tuple(Term(str(word), None) for word in pair)) for pair in pairs]
    return [Term(name, tuple(Term(str(item), None) for item in items))]


class _Reader:
    _TOKEN = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[(),]|[^\s(),"']+|$|.)""", re.DOTALL)
    _ESCAPE = re.compile(r"\\(.)", re.DOTALL)

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [found[1] for found in self._TOKEN.finditer(text)]
        self.index = 0

    def read(self) -> Term:
        term = self.term(0)
        if self.take() != "":
            self.fail("the end")
        return term

    def take(self) -> str:
        self.index += 1
        return self.tokens[self.index - 1]

    def fail(self, expected: str) -> NoReturn:
        token = self.tokens[self.index - 1]
        found = f"'{token}'" if token else "the end"
        raise UsageError(f"expected {expected}, found {found}", where=f"property '{self.text}'")

    def term(self, depth: int) -> Term:
        word = self.take()
        if word in ('"', "'"):
            raise UsageError("a quote is not closed", where=f"property '{self.text}'")
        if word in ("", "(", ")", ","):
            self.fail("an argument" if depth else "the name of a property")
        if depth > _DEEPEST:
            raise UsageError(f"more than {_DEEPEST} levels of nesting", where="property")
        if word[0] in "\"'":
            return Term(self._ESCAPE.sub(r"\1", word[1:-1]), None)
        if self.tokens[self.index] != "(":
            return Term(word, None)
        arguments: list[Term] = []
        while self.take() != ")":
            arguments.append(self.term(depth + 1))
            if self.tokens[self.index] not in (",", ")"):
                self.take()
                self.fail("',' or ')'")
        return Term(word, tuple(arguments))
