"""Time and memory that a model may take, and how many samples of it can be afforded."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onnx_passes.core.errors import UsageError

try:
    import resource
except ImportError:  # There is none on Windows.
    resource = None

_MEASURED = Path("/proc/self/statm")
_LOOK = 0.1
"""So many seconds a run may go on after its time is over."""


@dataclass(frozen=True)
class Resources:
    """Seconds that one run of a model may take, and bytes beyond those that the process has when it begins."""

    seconds: float = 60.0
    memory: int = 4 * 2**30

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise UsageError(f"a time limit of {self.seconds:g} s lets nothing run", hint="give a positive number")
        if self.memory <= 0:
            raise UsageError(f"a memory limit of {self.memory} bytes lets nothing run", hint="give a positive number")


_CURRENT: ContextVar[Resources | None] = ContextVar("resources", default=None)


def current_resources() -> Resources:
    """Return what executions may take here and now."""
    return _CURRENT.get() or Resources()


@contextlib.contextmanager
def limited(*, time_limit: float | None = None, memory_limit: int | None = None) -> Generator[Resources]:
    """Let every model that is executed in this block take at most so many seconds and bytes; what is None stays.

    ``with limited(time_limit=10, memory_limit=2**30): apply("model.onnx", "simplify")``
    """
    before = current_resources()
    given = Resources(
        before.seconds if time_limit is None else time_limit, before.memory if memory_limit is None else memory_limit
    )
    token = _CURRENT.set(given)
    try:
        yield given
    finally:
        _CURRENT.reset(token)


@contextlib.contextmanager
def memory_limited(memory: int) -> Generator[None]:
    """Refuse this process more memory than it has and ``memory`` bytes, where that is possible.

    It is not where other threads run, as their memory would be refused, too.
    """
    used = None if other_threads() else _used()
    if resource is None or used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + memory
    if (soft != resource.RLIM_INFINITY and soft <= wanted) or (hard != resource.RLIM_INFINITY and hard <= wanted):
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def memory_unlimited() -> Generator[None]:
    """Lift the limit of memory of this process, for one that it starts inherits it."""
    if resource is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def other_threads() -> list[str]:
    """Name the threads that run beside the one that asks, without our own."""
    here = threading.current_thread()
    return [each.name for each in threading.enumerate() if each is not here and not isinstance(each, _Watch)]


@contextlib.contextmanager
def ended_after(seconds: float, options: Any) -> Generator[None]:
    """Let ONNX Runtime end a run with these options before its next node, when its time is over."""
    watch = _watch_of(os.getpid())
    watch.add(options, seconds)
    try:
        yield
    finally:
        watch.remove(options)


class _Watch(threading.Thread):
    """Looks at the clock for all runs: to start a thread for each would take longer than most of them."""

    def __init__(self) -> None:
        super().__init__(name="onnx-passes-watch", daemon=True)
        self._runs: dict[int, tuple[float, Any]] = {}
        self._busy = threading.Event()

    def add(self, options: Any, seconds: float) -> None:
        """Watch a run from now on."""
        self._runs[id(options)] = time.monotonic() + seconds, options
        if not self._busy.is_set():
            self._busy.set()

    def remove(self, options: Any) -> None:
        """Forget a run that has ended."""
        del self._runs[id(options)]

    def run(self) -> None:
        while self._busy.wait():
            time.sleep(_LOOK)
            now = time.monotonic()
            for end, options in list(self._runs.values()):
                if now > end:
                    options.terminate = True
            if not self._runs:
                self._busy.clear()
                if self._runs:
                    # One was added since.
                    self._busy.set()


@cache
def _watch_of(_process: int) -> _Watch:
    """Start the watch of a process; a copy of the process has none."""
    watch = _Watch()
    watch.start()
    return watch


def is_memory_error(error: BaseException) -> bool:
    """Return whether an engine failed because it got no memory."""
    text = str(error)
    return isinstance(error, MemoryError) or "Failed to allocate memory" in text or "bad_alloc" in text


def private_bytes() -> int:
    """Return the memory that this process shares with no file; 0 where that is not known."""
    if sys.platform != "linux":
        return 0
    try:
        fields = _MEASURED.read_bytes().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def _used() -> int | None:
    """Return the size of the address space of this process, where that is known."""
    if sys.platform != "linux":
        return None
    try:
        return int(_MEASURED.read_bytes().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


Sizes = dict[str, np.ndarray]


class Pace:
    """Lets runs on samples go on after the first while they take no more seconds of processor time than ``limit``."""

    def __init__(self, limit: float = math.inf) -> None:
        self._limit = limit
        self._first: tuple[float, int] | None = None
        self._spent = 0.0
        self._left_out: Sequence[Sizes] = ()

    def allows(self, sample: Sizes, rest: Sequence[Sizes]) -> bool:
        """Return whether a sample may run; if not, it and the ``rest`` are left out."""
        if self._first is None or self.has_room(self._foreseen(sample)):
            return True
        self._left_out = (sample, *rest)
        return False

    def has_room(self, seconds: float) -> bool:
        """Return whether one more run may take so long."""
        return self._spent + seconds <= self._limit

    def took(self, sample: Sizes, seconds: float) -> None:
        """Take in what a run took."""
        if self._first is None:
            self._first = seconds, _elements(sample)
        else:
            self._spent += seconds

    @property
    def shortage(self) -> tuple[float, float] | None:
        """Return what the first run took, and how many times the limit all would take; None if all ran."""
        if self._first is None or not self._left_out:
            return None
        wanted = self._spent + sum(map(self._foreseen, self._left_out))
        return self._first[0], wanted / self._limit

    def _foreseen(self, sample: Sizes) -> float:
        assert self._first is not None
        seconds, elements = self._first
        return seconds * _elements(sample) / elements


def _elements(sample: Sizes) -> int:
    return max(1, sum(array.size for array in sample.values()))
