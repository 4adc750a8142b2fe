"""What the files of a model hold: digests by content, computed again only for files that were written to."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from pathlib import Path
from typing import TypedDict

from onnx_passes.graph.formats import FORMATS


class FileState(TypedDict):
    """A file: what it holds, and by what the system tells whether it was written to since."""

    digest: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


Contents = dict[str, FileState]
"""The files of a model by their place beside it: the model itself first, then its data files."""

_MISSING: FileState = {"digest": "missing", "size": 0, "mtime_ns": 0, "ctime_ns": 0, "inode": 0}
_SIZE = 16


def contents_of(model: Path, known: Contents | None = None) -> Contents:
    """Look at a model and its data files.

    Of a file that has the size, times and inode that are ``known`` of it, the digest is taken from there, as git does;
    any other is read. What decides is the digest: a file that was copied or touched holds what it held before.
    """
    known = known or {}
    own = _state(model, known.get(model.name))
    is_known = model.name in known and known[model.name]["digest"] == own["digest"]
    names = [name for name in known if name != model.name] if is_known else _data_files(model)
    return {model.name: own, **{name: _state(model.parent / name, known.get(name)) for name in names}}


def digest_of(contents: Contents) -> str:
    """Return one digest for all files of a model: that of the model, if it is alone."""
    own, *beside = contents.items()
    if not beside:
        return own[1]["digest"]
    # The name of the model itself does not matter: nothing that it holds names it.
    text = json.dumps([own[1]["digest"], *sorted((name, state["digest"]) for name, state in beside)])
    return hashlib.blake2b(text.encode(), digest_size=_SIZE).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of what a file holds."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_SIZE)).hexdigest()
    except OSError:
        return _MISSING["digest"]


def _state(path: Path, known: FileState | None) -> FileState:
    try:
        status = path.stat()
    except OSError:
        return _MISSING
    seen = FileState(
        digest="",
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        inode=status.st_ino,
    )
    if known is not None and known == {**seen, "digest": known["digest"]}:
        return known
    seen["digest"] = file_digest(path)
    return seen


def _data_files(model: Path) -> list[str]:
    """List the data files that a model names; none for what cannot be read, whose reader will say why."""
    if FORMATS.get(model.suffix.lower(), "binary") != "binary" or not _may_name_files(model):
        return []
    import onnx_ir as ir

    from onnx_passes.graph.external import locations

    try:
        return sorted(locations(ir.load(model)))  # pyright: ignore[reportUnknownMemberType]
    except Exception:  # noqa: BLE001 - whatever is wrong with a file, it names no others
        return []


def _may_name_files(model: Path) -> bool:
    """Tell whether the key by which models name data files occurs: those without are not parsed."""
    try:
        with model.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(b"location") >= 0
    except OSError:
        return False
