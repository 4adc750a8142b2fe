"""Signals that end the program become exceptions, so that temporary files are removed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator
from typing import Any


class Terminated(BaseException):
    """Request to end the program; not an Exception, so that only cleanup code runs."""


@contextlib.contextmanager
def cleaning_up() -> Generator[None]:
    """Raise Terminated on signals that would otherwise end the program with partial files."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before: dict[int, Any] = {}
    # Only the main thread may set signal handlers.
    with contextlib.suppress(ValueError):
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
