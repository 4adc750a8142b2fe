"""Worker processes on this machine: they stay, to reuse loaded data, and are replaced when they die."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from functools import partial
from typing import Any

from onnx_passes.workers.completed import Ended

try:
    import fcntl
except ImportError:  # There is none on Windows.
    fcntl = None


class Processes:
    """A fixed number of worker processes.

    Each is a separate pool: if a process dies, its work is known, and the others continue. ``preload`` names modules
    that all processes need, which are loaded once.
    """

    def __init__(self, count: int, *, preload: Sequence[str] = ()) -> None:
        methods = multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
        if preload and self._context.get_start_method() == "forkserver":
            self._context.set_forkserver_preload(["__main__", *preload])
        self._lock = threading.Lock()
        self._idle = [self._started() for _ in range(count)]
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy: set[ProcessPoolExecutor] = set()
        self._is_over = False

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.shutdown(at_once=kind is not None)

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Submit work to the next free process."""
        future: Future[Any] = Future()
        self._waiting.append((future, partial(fn, *args)))
        self._give()
        return future

    def shutdown(self, *, at_once: bool = False) -> None:
        """End all processes, after their current work or immediately."""
        with self._lock:
            self._is_over = True
            waiting, self._waiting = self._waiting, deque()
            pools = [*self._idle, *self._busy]
        for future, _ in waiting:
            future.cancel()
        for pool in pools:
            if at_once:
                for process in list((pool._processes or {}).values()):  # pyright: ignore[reportPrivateUsage]
                    process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=self._context, initializer=_begin)

    def _give(self) -> None:
        """Give waiting work to free processes."""
        while True:
            with self._lock:
                if self._is_over or not self._idle or not self._waiting:
                    return
                future, work = self._waiting.popleft()
                if not future.set_running_or_notify_cancel():
                    continue
                pool = self._idle.pop()
                self._busy.add(pool)
            try:
                inner = pool.submit(work)
            except BrokenExecutor as error:
                self._return(pool, is_lost=True)
                future.set_exception(error)
                continue
            inner.add_done_callback(partial(self._take, pool, future))

    def _take(self, pool: ProcessPoolExecutor, future: Future[Any], inner: Future[Any]) -> None:
        error = CancelledError() if inner.cancelled() else inner.exception()
        if isinstance(error, BrokenExecutor):
            error = _ended(pool) or error
        self._return(pool, is_lost=isinstance(error, BrokenExecutor))
        if error is None:
            future.set_result(inner.result())
        else:
            future.set_exception(error)
        self._give()

    def _return(self, pool: ProcessPoolExecutor, *, is_lost: bool) -> None:
        if is_lost:
            pool.shutdown(wait=False)
        with self._lock:
            self._busy.discard(pool)
            if not self._is_over:
                self._idle.append(self._started() if is_lost else pool)


def _ended(pool: ProcessPoolExecutor) -> Ended | None:
    """Return the signal or exit code that ended the process of a pool; None if unknown."""
    codes = [process.exitcode for process in (pool._processes or {}).values()]  # pyright: ignore[reportPrivateUsage]
    if len(codes) != 1 or codes[0] is None:
        return None
    return Ended(signal.Signals(-codes[0]).name if codes[0] < 0 else f"exit code {codes[0]}")


def _begin() -> None:
    """Ignore interrupts, which the parent handles, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()


def _end_with_parent() -> None:
    """Make the system end this process with its parent, even if the parent is killed.

    A pipe whose other end exists only while the parent lives sends a signal, which ends the process by default. A
    waiting thread would do, too, but memory limits do not work with threads.
    """
    parent = multiprocessing.parent_process()
    if parent is None or fcntl is None:
        return
    with contextlib.suppress(OSError):
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():
        os._exit(1)
