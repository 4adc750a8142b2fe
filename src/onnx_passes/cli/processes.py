"""Work that is done in processes of its own, some at a time: what one of them does wrong is its own affair."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

J = TypeVar("J")
Answer = dict[str, Any]
"""What came of a piece of work, as plain data."""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Died:
    """A process that ended without a word."""

    exit_code: int

    def __str__(self) -> str:
        import signal

        if self.exit_code >= 0:
            return f"the process ended with exit code {self.exit_code}"
        return f"the process was ended by {signal.Signals(-self.exit_code).name}; it may have needed too much memory"


@dataclass(frozen=True)
class _Started(Generic[J]):
    job: J
    process: BaseProcess
    way: Connection

    def end(self) -> None:
        """End the process as an interrupt does, so that it leaves only whole files."""
        self.process.terminate()
        self.process.join()


def map_jobs(work: Callable[[J], Answer], jobs: Iterable[J], at_once: int) -> Iterator[tuple[J, Answer | Died]]:
    """Do all jobs, ``at_once`` at a time, and yield what came of each as soon as it is done.

    Where processes cannot be copied, they are done one after the other in this one. Whoever stops listening, or is
    interrupted, ends what still runs.
    """
    from onnx_passes.verify.run.child import can_fork

    if not can_fork():
        yield from ((job, work(job)) for job in jobs)
        return
    from multiprocessing.connection import wait

    waiting, running = iter(jobs), list[_Started[J]]()
    try:
        while True:
            while len(running) < at_once and (job := next(waiting, None)) is not None:
                running.append(_start(work, job))
            if not running:
                return
            ready = wait([one.way for one in running])
            for one in [one for one in running if one.way in ready]:
                answer = _answer(one)
                running.remove(one)
                yield one.job, answer
    finally:
        for one in running:
            one.end()


@contextlib.contextmanager
def sharing_processors(at_once: int) -> Generator[None]:
    """Let libraries that are loaded in this block use their share of the processors."""
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
    """Return the bytes that one of several processes may take, no more than ``most``."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return most
    return max(1, min(most, total // at_once)) if at_once > 1 else most


def _start(work: Callable[[J], Answer], job: J) -> _Started[J]:
    import multiprocessing

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_do, args=(work, job, theirs))
    with warnings.catch_warnings():
        # Python warns of threads: this process has not run any model, and has none that hold a lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return _Started(job, process, ours)


def _do(work: Callable[[J], Answer], job: J, way: Connection) -> None:
    answer = work(job)
    with contextlib.suppress(OSError):
        way.send_bytes(json.dumps(answer, default=str).encode())


def _answer(one: _Started[Any]) -> Answer | Died:
    try:
        answer = json.loads(one.way.recv_bytes())
    except (EOFError, OSError):
        answer = None
    one.process.join()
    one.way.close()
    return Died(one.process.exitcode or 0) if answer is None else answer
