"""The garbage collector, out of the way."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 100_000
"""New objects before the collector looks at them; modules and definitions alone are several hundred thousand."""


@contextmanager
def patient_collector() -> Generator[None]:
    """Make the garbage collector of a process that runs one command look seldom, and at nothing when it ends.

    Otherwise it looks again and again at modules while they are loaded, and at all objects before the process exits.
    """
    gc.set_threshold(_MANY)
    try:
        yield
    finally:
        gc.freeze()


@contextmanager
def paused_collector() -> Generator[None]:
    """Pause the garbage collector: it would search growing graphs again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
