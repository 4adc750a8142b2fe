"""Replace files all together or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


@contextlib.contextmanager
def replacing(*targets: Path) -> Generator[list[BinaryIO]]:
    """Open a file to write for each target; they take the place of the targets when the block ends.

    If the block raises, or putting the files in place fails, every target is as it was and nothing else stays
    behind. Links are followed, and permissions of existing files kept.
    """
    places = [Path(os.path.realpath(target)) for target in targets]
    temporary = [place.with_name(f".{place.name[:200]}.{secrets.token_hex(6)}.tmp") for place in places]
    try:
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(_create(path, place)) for path, place in zip(temporary, places, strict=True)]
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        _exchange(temporary, places)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Tell whether a path is a device or pipe, which is written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _create(path: Path, place: Path) -> BinaryIO:
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(place))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    with contextlib.suppress(FileNotFoundError):
        path.chmod(stat.S_IMODE(place.stat().st_mode))
    return os.fdopen(descriptor, "wb")


def _exchange(temporary: Sequence[Path], places: Sequence[Path]) -> None:
    """Put files in place one by one, with a way back until the last one is there."""
    backups: list[tuple[Path, Path | None]] = []
    try:
        for path, place in zip(temporary[:-1], places[:-1], strict=True):
            backup = path.with_suffix(".old") if place.exists() else None
            backups.append((place, backup))
            if backup is not None:
                place.replace(backup)
            path.replace(place)
        temporary[-1].replace(places[-1])
    except BaseException:
        for place, backup in backups:
            if backup is None:
                place.unlink(missing_ok=True)
            elif backup.exists():
                backup.replace(place)
        raise
    for _, backup in backups:
        if backup is not None:
            backup.unlink(missing_ok=True)
