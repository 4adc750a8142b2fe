"""The shared resources of several processes on one machine: its processors and its memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@contextlib.contextmanager
def sharing_processors(at_once: int) -> Generator[None]:
    """Limit the threads of libraries loaded in this block to their share of the processors."""
    before = {name: os.environ.get(name) for name in _THREADS}
    share = max(1, (os.cpu_count() or 1) // at_once)
    if at_once > 1:
        os.environ.update({name: str(share) for name, value in before.items() if value is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def memory_share(at_once: int, most: int) -> int:
    """Return the bytes that one of several processes may use, at most ``most``."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return most
    return max(1, min(most, total // at_once)) if at_once > 1 else most
