"""Control of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 100_000
"""Number of new objects before a collection; modules and definitions alone are several hundred thousand."""


@contextmanager
def patient_collector() -> Generator[None]:
    """Make collections rare in a process that runs one command, and skip the one at its end.

    Otherwise the collector scans modules while they are loaded, and all objects before the process exits.
    """
    gc.set_threshold(_MANY)
    try:
        yield
    finally:
        gc.freeze()


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the garbage collector: it would scan growing graphs repeatedly, without finding garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
