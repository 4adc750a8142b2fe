"""Work that processes do in tests; they import it by its name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def own_process(_: object) -> int:
    time.sleep(0.05)
    return os.getpid()


def fail_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str) -> str:
    """End the process, unless somebody did so before."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return f"{Path(mark).name} is done"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_or_square(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def sleep_long(mark: str) -> None:
    Path(mark).write_text(str(os.getpid()))
    time.sleep(600)
