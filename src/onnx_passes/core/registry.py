"""The registry: names, groups, aliases and tags of passes, read from an index until a pass is needed.

Passes that plug-ins register are cached, so that listing passes does not import them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from onnx_passes.core.entry import Entry as Entry
from onnx_passes.core.entry import entry_of, refuse_misspelt
from onnx_passes.core.errors import OnnxPassesError, RegistrationError, UnknownPassError, did_you_mean
from onnx_passes.core.naming import fold, kebab

if TYPE_CHECKING:
    from onnx_passes.core.base import Pass
    from onnx_passes.core.instruments import Instrument


_HERE = Path(__file__).parent
"""Package with the modules that define the format of the cache."""


class PluginNotes:
    """Cached entries of one plug-in, valid while no Python file of its package changes."""

    def __init__(self, plugin: EntryPoint) -> None:
        self._state = _state_of(plugin)
        name = hashlib.sha256(f"{plugin.value} {sys.prefix}".encode()).hexdigest()[:16]
        self._file = _cache_folder() / f"plugin-{name}.json"

    def read(self) -> list[dict[str, Any]] | None:
        """Return the entries that the plug-in registered; None if nothing is cached or the package has changed."""
        if self._state is None:
            return None
        try:
            noted = json.loads(self._file.read_text(encoding="utf-8"))
            return cast("list[dict[str, Any]]", noted["entries"]) if noted["state"] == self._state else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, entries: Sequence[dict[str, Any]]) -> None:
        """Cache the entries; if that is not possible, the plug-in is imported the next time."""
        if self._state is None:
            return
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._file.parent, delete=False, encoding="utf-8") as file:
                json.dump({"state": self._state, "entries": entries}, file)
            Path(file.name).replace(self._file)


def _cache_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~").expanduser() / "onnx-passes" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "onnx-passes"


def _state_of(plugin: EntryPoint) -> str | None:
    """Return a digest of path, size and time of every Python file of the plug-in's package.

    None if the package is imported already: then it is unknown which of its plug-ins registers which passes.
    """
    package = plugin.value.split(":")[0].split(".")[0]
    if package in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        return None
    files = [_HERE / "entry.py", _HERE / "options.py", *([Path(spec.origin)] if spec.origin is not None else [])]
    for folder in spec.submodule_search_locations or ():
        files.extend(sorted(Path(folder).rglob("*.py")))
    state = hashlib.sha256(f"{sys.version} {plugin.value}".encode())
    try:
        for file in files:
            status = file.stat()
            state.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode())
    except OSError:
        return None
    return state.hexdigest()


PLUGINS = "onnx_passes.passes"
"""Entry-point group: each entry names a module that registers passes when imported."""


@dataclass(frozen=True)
class Resolved:
    """Meaning of a name: one pass, with preset options if any, or the members of a group."""

    name: str
    entries: tuple[Entry, ...]
    preset: str = ""
    is_group: bool = False


class Registry:
    """Names of passes; the only state that lives as long as the process."""

    def __init__(self, index: Path | None = None) -> None:
        self._index = index
        self._entries: dict[str, Entry] = {}
        self._others = _OtherNames()
        self._classes: dict[str, type[Pass]] = {}
        self._indexed = index is None
        self._plugins_loaded = False
        self._noted: dict[str, importlib.metadata.EntryPoint] = {}
        self.adapters: list[Callable[[object], type[Pass] | None]] = []
        self.watchers: list[Callable[[], Instrument]] = []
        """Instruments of a pass that is called alone."""
        self.renamed: Callable[[str], str | None] = _never_renamed
        self.broken_plugin: Callable[[RegistrationError], object] = _refuse

    def adapt(self, thing: object) -> type[Pass] | None:
        """Convert a foreign pass class or rule to a pass class, if an adapter accepts it."""
        return next((made for adapter in self.adapters if (made := adapter(thing)) is not None), None)

    def register(
        self, cls: type[Pass], *names: str, tags: Iterable[str] = (), aliases: Mapping[str, str] | None = None
    ) -> type[Pass]:
        """Register a pass class; further names are groups that it joins, or aliases if no other pass has them."""
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
        self._put(entry)
        self._classes[entry.name] = cls
        return cls

    def _put(self, entry: Entry) -> None:
        """Add the entry of a pass, or replace its earlier entry."""
        known = self._entries.get(fold(entry.name))
        if known is not None:
            self._others.remove(known)
        self._entries[fold(entry.name)] = entry
        self._others.add(entry)

    def refresh(self, cls: type[Pass]) -> None:
        """Update the entry of a registered class after a decorator changed it."""
        entry = self._entries.get(fold(cls.__name__))
        if entry is not None and self._classes.get(entry.name) is cls:
            self._put(replace(entry, claims=tuple(str(claim) for claim in cls.claims)))

    def _refuse_clashes(self, entry: Entry) -> None:
        others = self._others
        for name in (entry.name, *entry.groups, *entry.aliases):
            key = fold(name)
            owners = [] if name == entry.name else [key]
            owners += others.aliases.get(key, ())
            # Several passes may be of one group, which must not be the name of a single one.
            owners += () if name in entry.groups else others.groups.get(key, ())
            found = (self._entries.get(owner) for owner in owners if owner != fold(entry.name))
            owner = next(filter(None, found), None)
            if owner is not None:
                raise RegistrationError(
                    f"'{name}' of pass '{entry.name}' ({entry.place}) already names '{owner.name}' ({owner.place})",
                    hint="choose another name",
                )

    def entries(self) -> list[Entry]:
        """List all passes by name, including those of plug-ins."""
        self._read_index()
        self.load_plugins()
        return sorted(self._entries.values(), key=lambda entry: entry.name)

    def groups(self) -> dict[str, list[Entry]]:
        """Map each group to its members in registration order, including those of plug-ins."""
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
        """List every name that is valid in pipeline text."""
        names = {name for entry in self.entries() for name in (entry.name, *entry.aliases)}
        return sorted(names | set(self.groups()))

    def find(self, name: str) -> Resolved:
        """Resolve a name; an unknown one is an error that suggests the nearest."""
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

    def _find(self, name: str) -> Resolved | None:
        key = fold(name)
        if key in self._entries:
            return Resolved(self._entries[key].name, (self._entries[key],))
        for owner in self._others.aliases.get(key, ()):
            entry = self._entries[owner]
            alias = next(alias for alias in entry.aliases if fold(alias) == key)
            return Resolved(alias, (entry,), preset=entry.aliases[alias])
        if key in self._others.groups:
            group, members = next(item for item in self._groups().items() if fold(item[0]) == key)
            return Resolved(group, tuple(members), is_group=len(members) > 1)
        now = self.renamed(name)
        return None if now is None else self._find(now)

    def found_of(self, cls: type) -> Resolved | None:
        """Return the entry of a registered class."""
        name = cls.__dict__.get("text_name", "")
        return self._find(name) if name and self._classes.get(name) is cls else None

    def load(self, entry: Entry) -> type[Pass]:
        """Return the class of an entry, importing its module on first use."""
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
                f"module '{entry.module}' does not register the pass '{entry.name}' of the index",
                hint="recreate the index with 'make index'",
            ) from None

    def load_plugins(self) -> None:
        """Register the passes of installed packages, by their entry-point group."""
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
        """Use the cached entries of a plug-in, unless a name is taken: importing it then raises the error."""
        by_name = {fold(entry.name): entry for entry in entries}
        if not by_name.keys().isdisjoint(self._entries):
            return False
        for entry in by_name.values():
            self._put(entry)
        self._noted.update((entry.name, plugin) for entry in by_name.values())
        return True

    def _import_plugin(self, plugin: importlib.metadata.EntryPoint) -> list[Entry]:
        """Import a plug-in, and return its new entries."""
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
        """Use only imported passes, without index and plug-ins."""
        self._indexed = self._plugins_loaded = True
        known, self._entries, self._others = self._entries, {}, _OtherNames()
        for entry in known.values():
            if entry.name in self._classes:
                self._put(entry)

    def _read_index(self) -> None:
        if self._indexed or self._index is None:
            return
        self._indexed = True
        if not self._index.exists():
            return
        for data in json.loads(self._index.read_text(encoding="utf-8")):
            entry = Entry.from_json(data)
            if fold(entry.name) not in self._entries:
                self._put(entry)


class _OtherNames:
    """Aliases and groups, folded, each with the folded names of the passes that have it."""

    def __init__(self) -> None:
        self.aliases: dict[str, dict[str, None]] = {}
        self.groups: dict[str, dict[str, None]] = {}

    def add(self, entry: Entry) -> None:
        """Enter the names of a pass."""
        for table, names in ((self.aliases, entry.aliases), (self.groups, entry.groups)):
            for name in names:
                table.setdefault(fold(name), {})[fold(entry.name)] = None

    def remove(self, entry: Entry) -> None:
        """Take the names of a pass out."""
        for table, names in ((self.aliases, entry.aliases), (self.groups, entry.groups)):
            for key in map(fold, names):
                owners = table.get(key, {})
                owners.pop(fold(entry.name), None)
                if not owners:
                    table.pop(key, None)


def _refuse(error: RegistrationError) -> NoReturn:
    raise error


def _never_renamed(name: str) -> str | None:
    return None


def _is_redefinition(old: Entry, new: Entry) -> bool:
    """Return whether a class redefines another one: its module was imported again, or its notebook cell run again."""
    return (old.module, old.class_name) == (new.module, new.class_name)


INDEX = Path(__file__).parent.parent / "passes" / "index.json"
REGISTRY = Registry(INDEX)
