"""Requests to end the program take the way of an error, so that no temporary file stays behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Generator
from typing import Any


class Terminated(BaseException):
    """Somebody wants the program to end: nothing is caught on the way but to clean up."""


@contextlib.contextmanager
def cleaning_up() -> Generator[None]:
    """Raise Terminated where the program would end at once, with files half written."""

    def end(number: int, frame: object) -> None:
        raise Terminated

    before: dict[int, Any] = {}
    # Only the main thread may say what happens; anywhere else all stays as it is.
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
