"""Contents of a model's files: digests, recomputed only for files that were written to."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from pathlib import Path
from typing import TypedDict

from onnx_passes.graph.origin import FORMATS


class FileState(TypedDict):
    """A file: its digest, and the metadata by which changes are noticed."""

    digest: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


Contents = dict[str, FileState]
"""The files of a model by path relative to it: the model itself first, then its data files."""

_MISSING: FileState = {"digest": "missing", "size": 0, "mtime_ns": 0, "ctime_ns": 0, "inode": 0}
_SIZE = 16


def contents_of(model: Path, known: Contents | None = None) -> Contents:
    """Return the states of a model and its data files.

    If a file has the ``known`` size, times and inode, its known digest is used, as in git; any other file is read. Only
    the digest counts: a file that was copied or touched has the same content.
    """
    known = known or {}
    own = _state(model, known.get(model.name))
    is_known = model.name in known and known[model.name]["digest"] == own["digest"]
    names = [name for name in known if name != model.name] if is_known else _data_files(model)
    return {model.name: own, **{name: _state(model.parent / name, known.get(name)) for name in names}}


def digest_of(contents: Contents) -> str:
    """Return one digest for all files of a model: that of the model, if it has no data files."""
    own, *beside = contents.items()
    if not beside:
        return own[1]["digest"]
    # The name of the model does not count: its content does not refer to it.
    text = json.dumps([own[1]["digest"], *sorted((name, state["digest"]) for name, state in beside)])
    return hashlib.blake2b(text.encode(), digest_size=_SIZE).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of the content of a file."""
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
    """Return the data files of a model; none for an unreadable one, whose reader will report the error."""
    if FORMATS.get(model.suffix.lower(), "binary") != "binary" or not _may_name_files(model):
        return []
    import onnx_ir as ir

    from onnx_passes.graph.external import locations

    try:
        return sorted(locations(ir.load(model)))  # pyright: ignore[reportUnknownMemberType]
    except Exception:  # noqa: BLE001 - whatever is wrong with a file, it names no others
        return []


def _may_name_files(model: Path) -> bool:
    """Return whether a file contains the key of data files, as other models need not be parsed."""
    try:
        with model.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(b"location") >= 0
    except OSError:
        return False
