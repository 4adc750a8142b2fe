"""Pipeline text: one notation for command line, configuration, Python, reproducers and reports.

``cleanup, fold-constants{max-size=1MB}, fixpoint{max=20}(algebraic, reorder), verify``

Items are separated by commas or white space; options stand in braces, a nested pipeline in parentheses.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from onnx_passes.core.errors import UsageError
from onnx_passes.core.options import format_value, quote

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<mark>[{}()\[\],=])
      | (?P<word>[^\s{}()\[\],="'\#]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NESTING = {"(": 1, ")": -1, "[": 1, "]": -1}
_DEEPEST = 50
"""Maximum nesting: parsed pipelines must also be planned, run and printed within the stack."""


class PipelineSyntaxError(UsageError):
    """Pipeline text that cannot be parsed; the message marks the place."""

    def __init__(self, what: str, text: str, at: int, *, hint: str | None = None) -> None:
        line_start = text.rfind("\n", 0, at) + 1
        line_end = text.find("\n", at)
        line = text[line_start : line_end if line_end >= 0 else len(text)]
        caret = re.sub(r"[^\t]", " ", text[line_start:at]) + "^"
        super().__init__(what, where="pipeline", hint=hint)
        self.at = at
        self.excerpt = f"  {line}\n  {caret}"

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.excerpt}"


@dataclass(frozen=True)
class PipelineItem:
    """One pass of a pipeline: its name, its options as written, and the pipeline nested in it."""

    name: str
    options: tuple[tuple[str, object], ...] = ()
    body: tuple[PipelineItem, ...] | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        options = ", ".join(f"{quote(key)}={format_value(value)}" for key, value in self.options)
        body = "" if self.body is None else f"({format_pipeline(self.body)})"
        return self.name + (f"{{{options}}}" if options else "") + body


def format_pipeline(items: Iterable[PipelineItem]) -> str:
    """Format the items in canonical form."""
    return ", ".join(str(item) for item in items)


def without_body(text: str) -> str:
    """Shorten the text of one pass, ``fixpoint{max=3}(a, b)`` to ``fixpoint{max=3}(…)``."""
    return f"{text.partition('(')[0]}(…)" if text.endswith(")") else text


@functools.cache
def parse_pipeline(text: str) -> tuple[PipelineItem, ...]:
    """Parse pipeline text; an error marks the place."""
    return _Parser(text).pipeline(end="")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.index = 0

    def _tokens(self) -> Iterator[_Token]:
        at = depth = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise PipelineSyntaxError("a quote is not closed", self.text, at)
            depth += _NESTING.get(found[0], 0)
            if depth > _DEEPEST:
                raise PipelineSyntaxError(f"more than {_DEEPEST} levels of nesting", self.text, at)
            if found.lastgroup != "space":
                yield _Token(str(found.lastgroup), found[0], at)
            at = found.end()
        yield _Token("end", "", len(self.text))

    @property
    def here(self) -> _Token:
        return self.tokens[self.index]

    def take(self) -> _Token:
        token = self.here
        self.index += 1
        return token

    def skip(self, mark: str) -> bool:
        if self.here.kind == "mark" and self.here.text == mark:
            self.index += 1
            return True
        return False

    def fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        token = token or self.here
        found = "the end" if token.kind == "end" else f"'{token.text}'"
        raise PipelineSyntaxError(f"expected {expected}, found {found}", self.text, token.at)

    def pipeline(self, end: str) -> tuple[PipelineItem, ...]:
        items: list[PipelineItem] = []
        while not self._at(end):
            items.append(self.item())
            if self.skip(",") and self._at(end):
                self.fail("a pass after the comma")
        if end:
            self.take()
        return tuple(items)

    def _at(self, end: str) -> bool:
        if self.here.kind == "end":
            if end:
                self.fail(f"'{end}'")
            return True
        return bool(end) and self.here.kind == "mark" and self.here.text == end

    def item(self) -> PipelineItem:
        name = self.take()
        if name.kind != "word":
            self.fail("the name of a pass", name)
        options = self.options() if self.skip("{") else ()
        body = self.pipeline(end=")") if self.skip("(") else None
        return PipelineItem(name.text, options, body, name.at)

    def options(self) -> tuple[tuple[str, object], ...]:
        options: dict[str, object] = {}
        while not self._at("}"):
            key = self.take()
            if key.kind not in ("word", "string"):
                self.fail("the name of an option", key)
            name = _unquoted(key)
            if name in options:
                raise PipelineSyntaxError(f"option '{name}' is given twice", self.text, key.at)
            options[name] = self.value() if self.skip("=") else "true"
            if not self.skip(",") and not self._at("}"):
                self.fail("',' or '}'")
        self.take()
        return tuple(options.items())

    def value(self) -> object:
        if self.skip("["):
            values: list[object] = []
            while not self._at("]"):
                values.append(self.value())
                if not self.skip(",") and not self._at("]"):
                    self.fail("',' or ']'")
            self.take()
            return values
        token = self.take()
        if token.kind not in ("word", "string"):
            self.fail("a value", token)
        return _unquoted(token)


def _unquoted(token: _Token) -> str:
    return _ESCAPE.sub(r"\1", token.text[1:-1]) if token.kind == "string" else token.text
