"""The registry: names, groups, aliases and tags of passes, answered from an index until a pass is needed."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import linecache
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from onnx_passes.core.errors import OnnxPassesError, RegistrationError, UnknownPassError, did_you_mean
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.options import Option, describe
from onnx_passes.core.spelling import refuse_misspelt

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.instruments import Instrument

PLUGINS = "onnx_passes.passes"
"""Entry-point group: each entry names a module that registers passes when imported."""


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


_TUPLES = ("groups", "tags", "needs", "followed_by", "preserves", "members", "claims")


@dataclass(frozen=True)
class Found:
    """What a name stands for: one pass (perhaps with preset options) or the members of a group."""

    name: str
    entries: tuple[Entry, ...]
    preset: str = ""
    is_group: bool = False


class Registry:
    """Names of passes; the only state that lives as long as the process."""

    def __init__(self, index: Path | None = None) -> None:
        self._index = index
        self._entries: dict[str, Entry] = {}
        self._classes: dict[str, type[Pass]] = {}
        self._indexed = index is None
        self._plugins_loaded = False
        self.adapters: list[Callable[[object], type[Pass] | None]] = []
        self.watchers: list[Callable[[], Instrument]] = []
        self.renamed: Callable[[str], str | None] = _never_renamed
        """What watches a pass that is called alone."""

    def adapt(self, thing: object) -> type[Pass] | None:
        """Make a pass class of something foreign, if anybody knows how."""
        return next((made for adapter in self.adapters if (made := adapter(thing)) is not None), None)

    def register(
        self, cls: type[Pass], *names: str, tags: Iterable[str] = (), aliases: Mapping[str, str] | None = None
    ) -> type[Pass]:
        """Register a pass class; names beside its own are groups that it joins, or aliases if it is alone."""
        self._read_index()
        entry = _entry_of(cls, names, tuple(tags), dict(aliases or {}))
        taken = self._entries.get(fold(entry.name))
        if taken is not None and not _is_redefinition(taken, entry):
            raise RegistrationError(
                f"two passes are named '{entry.name}': {taken.place} and {entry.place}",
                hint="rename one of the classes",
            )
        self._refuse_clashes(entry)
        refuse_misspelt(cls, entry.place)
        cls.text_name = entry.name
        self._entries[fold(entry.name)] = entry
        self._classes[entry.name] = cls
        return cls

    def refresh(self, cls: type[Pass]) -> None:
        """Note what a decorator added to a class that is already registered."""
        entry = self._entries.get(fold(cls.__name__))
        if entry is not None and self._classes.get(entry.name) is cls:
            self._entries[fold(entry.name)] = replace(entry, claims=tuple(str(claim) for claim in cls.claims))

    def _refuse_clashes(self, entry: Entry) -> None:
        names = self._other_names(entry)
        mine = {fold(name) for name in (*entry.groups, *entry.aliases)}
        for name in (entry.name, *entry.groups, *entry.aliases):
            key = fold(name)
            owner = self._entries.get(key) if key in mine else None
            owner = owner or names.get(key)
            if owner is not None and owner.name != entry.name:
                raise RegistrationError(
                    f"'{name}' of pass '{entry.name}' ({entry.place}) already names '{owner.name}' ({owner.place})",
                    hint="choose another name",
                )

    def _other_names(self, entry: Entry) -> dict[str, Entry]:
        """Map aliases, and groups as far as the new entry would make them ambiguous, to their owners."""
        names: dict[str, Entry] = {}
        ambiguous = {fold(name) for name in (entry.name, *entry.aliases)}
        for other in self._entries.values():
            names.update({fold(alias): other for alias in other.aliases})
            names.update({fold(group): other for group in other.groups if fold(group) in ambiguous})
        return names

    def entries(self) -> list[Entry]:
        """List all passes by name, plugins included."""
        self._read_index()
        self.load_plugins()
        return sorted(self._entries.values(), key=lambda entry: entry.name)

    def groups(self) -> dict[str, list[Entry]]:
        """Map each group to its members in registration order, plugins included."""
        self._read_index()
        self.load_plugins()
        return self._groups()

    def _groups(self) -> dict[str, list[Entry]]:
        groups: dict[str, list[Entry]] = {}
        first_spelling: dict[str, str] = {}
        for entry in self._entries.values():
            for group in entry.groups:
                groups.setdefault(first_spelling.setdefault(fold(group), group), []).append(entry)
        return groups

    def names(self) -> list[str]:
        """List every name that pipeline text may use."""
        names = {name for entry in self.entries() for name in (entry.name, *entry.aliases)}
        return sorted(names | set(self.groups()))

    def find(self, name: str) -> Found:
        """Resolve a name; an unknown one is an error that names the nearest."""
        self._read_index()
        found = self._find(name)
        if found is None and not self._plugins_loaded:
            self.load_plugins()
            found = self._find(name)
        if found is None:
            raise UnknownPassError(
                f"there is no pass or group named '{name}'",
                hint=did_you_mean(kebab(name), self.names()) or "'onnx-passes list' shows all names",
            )
        return found

    def _find(self, name: str) -> Found | None:
        key = fold(name)
        if key in self._entries:
            return Found(self._entries[key].name, (self._entries[key],))
        for entry in self._entries.values():
            for alias, preset in entry.aliases.items():
                if fold(alias) == key:
                    return Found(alias, (entry,), preset=preset)
        for group, members in self._groups().items():
            if fold(group) == key:
                return Found(group, tuple(members), is_group=len(members) > 1)
        now = self.renamed(name)
        return None if now is None else self._find(now)

    def found_of(self, cls: type) -> Found | None:
        """Return what a class is registered as."""
        name = cls.__dict__.get("text_name", "")
        return self._find(name) if name and self._classes.get(name) is cls else None

    def load(self, entry: Entry) -> type[Pass]:
        """Return the class of an entry, importing its module when it is first needed."""
        if entry.name not in self._classes:
            try:
                importlib.import_module(entry.module)
            except ImportError as error:
                raise RegistrationError(
                    f"module '{entry.module}' of pass '{entry.name}' cannot be imported: {error}",
                    hint="install what is missing",
                ) from error
        try:
            return self._classes[entry.name]
        except KeyError:
            raise RegistrationError(
                f"module '{entry.module}' does not register the pass '{entry.name}' that the index names",
                hint="recreate the index with 'make index'",
            ) from None

    def load_plugins(self) -> None:
        """Import the modules that installed packages offer in the entry-point group."""
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for plugin in importlib.metadata.entry_points(group=PLUGINS):
            try:
                plugin.load()
            except OnnxPassesError:
                raise
            except Exception as error:
                raise RegistrationError(
                    f"plugin '{plugin.name}' ({plugin.value}) cannot be imported: {error}",
                    hint="repair or uninstall the package that offers it",
                ) from error

    def _read_index(self) -> None:
        if self._indexed or self._index is None:
            return
        self._indexed = True
        if not self._index.exists():
            return
        for data in json.loads(self._index.read_text(encoding="utf-8")):
            entry = Entry.from_json(data)
            self._entries.setdefault(fold(entry.name), entry)


def _never_renamed(name: str) -> str | None:
    return None


def _is_redefinition(old: Entry, new: Entry) -> bool:
    """Tell a module imported again, or a notebook cell run again, from two passes of one name."""
    return (old.module, old.class_name) == (new.module, new.class_name)


def _entry_of(cls: type[Pass], groups: tuple[str, ...], tags: tuple[str, ...], aliases: dict[str, str]) -> Entry:
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
        doc=inspect.cleandoc(cls.__dict__.get("__doc__") or ""),
    )


def _line_of(cls: type) -> int:
    """Find the class statement by its text: inspect would parse the whole file, which takes milliseconds."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    statement = re.compile(rf"\s*class {re.escape(cls.__name__)}\b")
    return next((number for number, line in enumerate(linecache.getlines(file), 1) if statement.match(line)), 0)


REGISTRY = Registry(Path(__file__).parent.parent / "passes" / "index.json")
