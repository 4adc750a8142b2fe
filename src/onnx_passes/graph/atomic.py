"""Replace files atomically: the old content stays until the new one is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Generator

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


@contextlib.contextmanager
def replacing(target: Path) -> Generator[BinaryIO]:
    """Open a file to write, which replaces the target when the block ends.

    If the block raises, or the replacement fails, the target is unchanged and no temporary file remains.
    Links are followed, and permissions of an existing file kept.
    """
    place = Path(os.path.realpath(target))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
    temporary = place.with_name(f".{place.name[:200]}.{secrets.token_hex(6)}.tmp")
    with creating(temporary, like=place) as file:
        yield file
        finish(file)
        temporary.replace(place)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files that killed programs left in a folder or below it, to which no other program writes."""
    for path in folder.rglob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def creating(path: Path, *, like: Path) -> Generator[BinaryIO]:
    """Create a file with the permissions of another one; it is removed if the block raises."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                path.chmod(stat.S_IMODE(like.stat().st_mode))
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def finish(file: BinaryIO) -> None:
    """Flush a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def is_special(path: Path) -> bool:
    """Return whether a path is a device or pipe, which is written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
