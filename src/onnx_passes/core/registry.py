"""The registry: names, groups, aliases and tags of passes, answered from an index until a pass is needed."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from onnx_passes.core.entry import Entry as Entry
from onnx_passes.core.entry import entry_of
from onnx_passes.core.errors import OnnxPassesError, RegistrationError, UnknownPassError, did_you_mean
from onnx_passes.core.naming import fold, kebab
from onnx_passes.core.plugins import PluginNotes
from onnx_passes.core.spelling import refuse_misspelt

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.instruments import Instrument

PLUGINS = "onnx_passes.passes"
"""Entry-point group: each entry names a module that registers passes when imported."""


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
        self._noted: dict[str, importlib.metadata.EntryPoint] = {}
        self.adapters: list[Callable[[object], type[Pass] | None]] = []
        self.watchers: list[Callable[[], Instrument]] = []
        """What watches a pass that is called alone."""
        self.renamed: Callable[[str], str | None] = _never_renamed
        self.broken_plugin: Callable[[RegistrationError], object] = _refuse

    def adapt(self, thing: object) -> type[Pass] | None:
        """Make a pass class of something foreign, if anybody knows how."""
        return next((made for adapter in self.adapters if (made := adapter(thing)) is not None), None)

    def register(
        self, cls: type[Pass], *names: str, tags: Iterable[str] = (), aliases: Mapping[str, str] | None = None
    ) -> type[Pass]:
        """Register a pass class; names beside its own are groups that it joins, or aliases if it is alone."""
        self._read_index()
        entry = entry_of(cls, names, tuple(tags), dict(aliases or {}))
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
        if entry.name in self._noted and entry.name not in self._classes:
            self._import_plugin(self._noted[entry.name])
        elif entry.name not in self._classes:
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
        """Learn what the modules that installed packages offer in the entry-point group register."""
        if self._plugins_loaded:
            return
        self._plugins_loaded = True
        for plugin in importlib.metadata.entry_points(group=PLUGINS):
            notes = PluginNotes(plugin)
            noted = notes.read()
            if noted is not None and self._take_noted(plugin, map(Entry.from_json, noted)):
                continue
            try:
                added = self._import_plugin(plugin)
            except RegistrationError as error:
                self.broken_plugin(error)
            else:
                notes.write([entry.to_json() for entry in added])

    def _take_noted(self, plugin: importlib.metadata.EntryPoint, entries: Iterable[Entry]) -> bool:
        """Believe what is noted of a plugin, unless a name is taken by now: importing it says by whom."""
        by_name = {fold(entry.name): entry for entry in entries}
        if not by_name.keys().isdisjoint(self._entries):
            return False
        self._entries.update(by_name)
        self._noted.update((entry.name, plugin) for entry in by_name.values())
        return True

    def _import_plugin(self, plugin: importlib.metadata.EntryPoint) -> list[Entry]:
        """Import a plugin; returns what it registered that was not known before."""
        known = set(self._entries)
        try:
            plugin.load()
        except OnnxPassesError:
            raise
        except Exception as error:
            raise RegistrationError(
                f"plugin '{plugin.name}' ({plugin.value}) cannot be imported: {error}",
                hint="repair or uninstall the package that offers it",
            ) from error
        return [entry for key, entry in self._entries.items() if key not in known]

    def only_imported(self) -> None:
        """Answer from what has been imported alone, without index and plugins."""
        self._indexed = self._plugins_loaded = True
        self._entries = {key: entry for key, entry in self._entries.items() if entry.name in self._classes}

    def _read_index(self) -> None:
        if self._indexed or self._index is None:
            return
        self._indexed = True
        if not self._index.exists():
            return
        for data in json.loads(self._index.read_text(encoding="utf-8")):
            entry = Entry.from_json(data)
            self._entries.setdefault(fold(entry.name), entry)


def _refuse(error: RegistrationError) -> NoReturn:
    raise error


def _never_renamed(name: str) -> str | None:
    return None


def _is_redefinition(old: Entry, new: Entry) -> bool:
    """Tell a module imported again, or a notebook cell run again, from two passes of one name."""
    return (old.module, old.class_name) == (new.module, new.class_name)


INDEX = Path(__file__).parent.parent / "passes" / "index.json"
REGISTRY = Registry(INDEX)
