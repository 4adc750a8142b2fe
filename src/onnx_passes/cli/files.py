"""Output files: refuse unwritable paths before the work starts, and write text atomically."""

from __future__ import annotations

import os
from pathlib import Path

from onnx_passes.core.errors import UsageError


def require_writable(path: str | None) -> None:
    """Refuse an output that is a folder or whose folder is missing or read-only."""
    if path is None or path == "-":
        return
    target = Path(path)
    if target.is_dir():
        raise UsageError("this is a folder", where=path, hint="name a file in it")
    if not target.parent.is_dir():
        raise UsageError("the folder does not exist", where=path, hint="create it first")
    place = target if target.exists() and not target.is_file() else target.parent
    if not os.access(place, os.W_OK):
        raise UsageError("permission to write here is denied", where=path, hint="choose another place")


def write_text(path: str, text: str) -> None:
    """Write a text file completely, or not at all."""
    from onnx_passes.graph.atomic import is_special, replacing

    try:
        if is_special(Path(path)):
            Path(path).write_text(text, encoding="utf-8")
            return
        with replacing(Path(path)) as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror or error}", where=path, hint="choose another place"
        ) from error
