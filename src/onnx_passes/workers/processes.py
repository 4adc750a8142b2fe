"""Worker processes on this machine: each stays, so that what it has loaded serves again; one that dies is replaced."""

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
    """So many processes that do work.

    Each is a pool of its own: where one process dies, it is known what it worked on, and the others go on.
    ``preload`` names modules that all of them need, which are loaded once.
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
        """Let the next process that is free do this."""
        future: Future[Any] = Future()
        self._waiting.append((future, partial(fn, *args)))
        self._give()
        return future

    def shutdown(self, *, at_once: bool = False) -> None:
        """End all processes, when they have done what they are at or at once."""
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
        """Give what waits to those who are free."""
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
    """Say how the process of a pool ended, if that is known."""
    codes = [process.exitcode for process in (pool._processes or {}).values()]  # pyright: ignore[reportPrivateUsage]
    if len(codes) != 1 or codes[0] is None:
        return None
    return Ended(signal.Signals(-codes[0]).name if codes[0] < 0 else f"exit code {codes[0]}")


def _begin() -> None:
    """Leave interrupts to who gives the work, who ends this process if they are meant, and end with that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()


def _end_with_parent() -> None:
    """Let the system end this process when the one that gave it work is gone, even if that could not say so.

    The pipe whose other end is there only while that one lives sends a signal, which ends a process that does not
    expect it. A thread that waits would do, too, but where there are threads memory is not limited.
    """
    parent = multiprocessing.parent_process()
    if parent is None or fcntl is None:
        return
    with contextlib.suppress(OSError):
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():
        os._exit(1)
