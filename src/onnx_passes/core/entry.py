"""What is known of a pass without importing it, as the index and the notes on plugins keep it."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import Option, describe

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


@dataclass(frozen=True)
class Entry:
    """What is known of a pass without importing it."""

    name: str
    class_name: str
    module: str
    line: int = 0
    kind: str = "transformation"
    groups: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    options: tuple[Option, ...] = ()
    needs: tuple[str, ...] = ()
    followed_by: tuple[str, ...] = ()
    preserves: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    laws: tuple[str, ...] = ()
    doc: str = ""

    @property
    def summary(self) -> str:
        """Return the first line of the documentation."""
        return self.doc.split("\n", 1)[0]

    @property
    def place(self) -> str:
        """Name module and line of the definition."""
        return f"{self.module}:{self.line}" if self.line else self.module

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without what is empty."""
        return {key: value for key, value in asdict(self).items() if value not in ((), {}, "", 0)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Entry:
        """Read what ``to_json`` wrote."""
        plain: dict[str, Any] = dict(data)
        for key in _TUPLES:
            plain[key] = tuple(data.get(key, ()))
        plain["options"] = tuple(Option(**option) for option in data.get("options", ()))
        return Entry(**plain)


_TUPLES = ("groups", "tags", "needs", "followed_by", "preserves", "members", "claims", "laws")


def entry_of(cls: type[Pass], groups: tuple[str, ...], tags: tuple[str, ...], aliases: dict[str, str]) -> Entry:
    """Describe a pass class; ``groups`` are the names that it is registered under beside its own."""
    own = next((name for name in groups if fold(name) == fold(cls.__name__)), None)
    name = own or kebab(cls.__name__)
    other_names: dict[str, str] = {}
    for group in groups:
        if fold(group) != fold(name):
            other_names.setdefault(fold(group), group)
    members = cast(Iterable[object], getattr(cls, "passes", ()) if cls.takes_body else ())
    return Entry(
        name=name,
        class_name=cls.__name__,
        module=cls.__module__,
        line=_line_of(cls),
        kind=cls.kind,
        groups=tuple(other_names.values()),
        tags=tags,
        aliases=aliases,
        options=describe(cls),
        needs=tuple(cls.needs),
        followed_by=tuple(cls.followed_by),
        preserves=tuple(cls.preserves),
        members=tuple(m if isinstance(m, str) else str(getattr(m, "__name__", m)) for m in members),
        claims=tuple(str(claim) for claim in cls.claims),
        laws=tuple(str(law) for law in getattr(cls, "laws", ())),
        doc=inspect.cleandoc(cls.__dict__.get("__doc__") or ""),
    )


def _line_of(cls: type) -> int:
    """Find the class statement by its text: inspect would parse the whole file, which takes milliseconds."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    statement = re.compile(rf"\s*class {re.escape(cls.__name__)}\b")
    return next((number for number, line in enumerate(linecache.getlines(file), 1) if statement.match(line)), 0)
