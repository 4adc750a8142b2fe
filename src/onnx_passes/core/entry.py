"""Description of a pass that needs no import, as the index stores it, and the check of the class of a pass."""

from __future__ import annotations

import difflib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from onnx_passes.core.errors import RegistrationError
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import Option, describe

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass


_METHODS = ("pattern", "check", "rewrite")
_DECLARATIONS = (
    "needs",
    "followed_by",
    "preserves",
    "fast_math",
    "lowers",
    "commute",
    "forks",
    "functions",
    "passes",
    "exhaustive",
)
_NEAR = 0.8
_SAID_WHEN_USED = ("call", "analyze")


def refuse_misspelt(cls: type[Pass], place: str) -> None:
    """Refuse a class that lacks a method of its kind, or has one whose name is nearly that of another."""
    own = {name: value for name, value in vars(cls).items() if not name.startswith("_")}
    for missing in cls.unwritten():
        near = difflib.get_close_matches(missing, own, n=1, cutoff=_NEAR)
        if missing in _SAID_WHEN_USED and not near:
            continue
        raise RegistrationError(
            f"pass '{cls.__name__}' ({place}) has no method '{missing}'",
            hint=f"rename '{near[0]}' to '{missing}'" if near else f"write 'def {missing}(self, …)'",
        )
    for name, value in own.items():
        known = (
            _METHODS if _is_method_of_rule(value) else _DECLARATIONS if isinstance(value, tuple | str | bool) else ()
        )
        inherited = name in known or any(name in vars(base) for base in cls.__mro__[1:])
        near = [] if inherited or name in _fields(cls) else difflib.get_close_matches(name, known, n=1, cutoff=_NEAR)
        if near and near[0] not in own and hasattr(cls, near[0]):
            raise RegistrationError(
                f"'{name}' of pass '{cls.__name__}' ({place}) is not a method that is ever called",
                hint=f"did you mean '{near[0]}'?",
            )


def _is_method_of_rule(value: object) -> bool:
    """Return whether a value looks like a method of a rule: its first parameter is ``op``."""
    if not inspect.isfunction(value):
        return False
    return value.__code__.co_varnames[1:2] == ("op",)


def _fields(cls: type[Pass]) -> set[str]:
    return set(inspect.get_annotations(cls))


@dataclass(frozen=True)
class Entry:
    """Description of a pass without importing it."""

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
        """Return the first line of the docstring."""
        return self.doc.split("\n", 1)[0]

    @property
    def place(self) -> str:
        """Return module and line of the definition."""
        return f"{self.module}:{self.line}" if self.line else self.module

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty fields."""
        return {key: value for key, value in asdict(self).items() if value not in ((), {}, "", 0)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Entry:
        """Return the entry whose ``to_json`` is the given data."""
        plain: dict[str, Any] = dict(data)
        for key in _TUPLES:
            plain[key] = tuple(data.get(key, ()))
        plain["options"] = tuple(Option(**option) for option in data.get("options", ()))
        return Entry(**plain)


_TUPLES = ("groups", "tags", "needs", "followed_by", "preserves", "members", "claims", "laws")


def entry_of(cls: type[Pass], groups: tuple[str, ...], tags: tuple[str, ...], aliases: dict[str, str]) -> Entry:
    """Describe a pass class; ``groups`` are the names that it is registered under besides its own."""
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
    """Find the line of the class statement by its text: inspect would parse the file, which takes milliseconds."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    statement = re.compile(rf"\s*class {re.escape(cls.__name__)}\b")
    return next((number for number, line in enumerate(linecache.getlines(file), 1) if statement.match(line)), 0)
