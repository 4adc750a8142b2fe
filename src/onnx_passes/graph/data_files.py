"""Data files of models: a new name for every save, and removal of those of earlier saves.

A program that is killed while it saves must not leave a model with the weights of another one. New weights
therefore never overwrite old ones: replacing the model switches to them in one step, and unused files are removed
afterwards.
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
"""Maximum length in bytes of a model name within the name of its data file."""
_ABANDONED = 3600.0
"""Age in seconds after which an unused data file was left behind by a killed save."""


def free_data_file(model: Path) -> Path:
    """Return the path of a model's data file: its name with ``.data`` appended, or a random one if that exists."""
    plain = model.with_name(f"{model.name}.data")
    if not os.path.lexists(plain):
        return plain
    return model.with_name(f"{_stem(model)}.{secrets.token_hex(4)}.data")


def outdated_data_files(model: Path) -> list[Path]:
    """Return data files of earlier saves that the existing model uses, or that were abandoned."""
    found = [entry for entry in _own(model) if entry.is_file() and not entry.is_symlink()]
    if not found:
        return []
    named, plain = _named(model, found), f"{model.name}.data"
    oldest = time.time() - _ABANDONED
    return [e for e in found if e in named or (e.name != plain and e.stat().st_mtime < oldest)]


def remove_unnamed(files: Collection[Path], suffixes: Collection[str]) -> None:
    """Remove data files, except the files that a model in their folder uses."""
    left = set(files)
    for folder in {file.parent for file in files}:
        for entry in folder.iterdir():
            if left and entry.suffix.lower() in suffixes and entry.is_file():
                left -= _named(entry, left)
    for file in left:
        file.unlink(missing_ok=True)


def _own(model: Path) -> list[Path]:
    """Return the files with names of data files of a model."""
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
    """Return the files whose name occurs in a model; all of them if it cannot be read."""
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
