"""Data files beside a model: a name of their own for every save, and those of earlier saves removed.

A model that is killed while it is saved must not meet the weights of another one. So new weights never take the
place of old ones: the model that names them does, in one step, and what nobody names any more goes afterwards.
"""

from __future__ import annotations

import mmap
import os
import re
import secrets
import time
from collections.abc import Collection
from pathlib import Path

_LONGEST = 225
"""Bytes of the name of a model that fit into the name of its data file."""
_ABANDONED = 3600.0
"""Seconds after which a data file that nobody names was left behind by a save that was killed."""


def free_data_file(model: Path) -> Path:
    """Return where the weights of a model go: to its name with ``.data`` appended, or to another one if that exists."""
    plain = model.with_name(f"{model.name}.data")
    if not os.path.lexists(plain):
        return plain
    return model.with_name(f"{_stem(model)}.{secrets.token_hex(4)}.data")


def outdated_data_files(model: Path) -> list[Path]:
    """Find data files of earlier saves that the model there names, or that were abandoned, before it is replaced."""
    found = [entry for entry in _own(model) if entry.is_file() and not entry.is_symlink()]
    if not found:
        return []
    named, plain = _named(model, found), f"{model.name}.data"
    oldest = time.time() - _ABANDONED
    return [e for e in found if e in named or (e.name != plain and e.stat().st_mtime < oldest)]


def remove_unnamed(files: Collection[Path], suffixes: Collection[str]) -> None:
    """Remove data files, but for those that a model in their folder names."""
    left = set(files)
    for folder in {file.parent for file in files}:
        for entry in folder.iterdir():
            if left and entry.suffix.lower() in suffixes and entry.is_file():
                left -= _named(entry, left)
    for file in left:
        file.unlink(missing_ok=True)


def _own(model: Path) -> list[Path]:
    """List the files that are named as data files of a model are."""
    plain, pattern = f"{model.name}.data", re.compile(re.escape(_stem(model)) + r"\.[0-9a-f]{8}\.data")
    try:
        return [
            model.with_name(entry.name)
            for entry in model.parent.iterdir()
            if entry.name == plain or pattern.fullmatch(entry.name)
        ]
    except OSError:
        return []


def _stem(model: Path) -> str:
    return os.fsdecode(os.fsencode(model.name)[:_LONGEST])


def _named(model: Path, files: Collection[Path]) -> set[Path]:
    """Return the files whose name occurs in a model; all of them where it cannot be read."""
    try:
        with model.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return set()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return {entry for entry in files if content.find(entry.name.encode()) >= 0}
    except FileNotFoundError:
        return set()
    except OSError:
        return set(files)
