"""The notation of properties: ``name``, or ``name(argument, …)`` with words, quoted text and further properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

from onnx_passes.core.errors import UsageError
from onnx_passes.core.naming import kebab

_DEEPEST = 50
_OF_PROPERTIES = ("all-of", "any-of", "not")


@dataclass(frozen=True)
class Term:
    """A word or quoted text, and what stands in parentheses after it."""

    text: str
    arguments: tuple[Term, ...] | None

    def __str__(self) -> str:
        return self.text if self.arguments is None else f"{self.text}({', '.join(map(str, self.arguments))})"


def parse_term(text: str) -> Term:
    """Read the text of a property without asking what it means."""
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
    """Read what stands under the name of a property."""
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
