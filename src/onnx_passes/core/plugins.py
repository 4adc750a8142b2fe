"""What plugins register, kept in the user's cache folder: listing passes must not pay for importing them."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

_HERE = Path(__file__).parent
"""Has the modules whose form the notes are in."""


class PluginNotes:
    """What is noted of one plugin, as long as no Python file of its package changes."""

    def __init__(self, plugin: EntryPoint) -> None:
        self._state = _state_of(plugin)
        name = hashlib.sha256(f"{plugin.value} {sys.prefix}".encode()).hexdigest()[:16]
        self._file = _cache_folder() / f"plugin-{name}.json"

    def read(self) -> list[dict[str, Any]] | None:
        """Return the entries that the plugin registered; None if nothing is noted or the package has changed."""
        if self._state is None:
            return None
        try:
            noted = json.loads(self._file.read_text(encoding="utf-8"))
            return cast("list[dict[str, Any]]", noted["entries"]) if noted["state"] == self._state else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, entries: Sequence[dict[str, Any]]) -> None:
        """Note the entries for the next time; where that is not possible the plugin is imported then."""
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
    """Return what changes with the plugin: path, size and time of every Python file of its package.

    Of a package that is imported already, it cannot be told which passes each of its plugins registers.
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
