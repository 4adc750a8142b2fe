"""Submit work and collect the results, regardless of lost workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from onnx_passes.core.errors import UsageError
from onnx_passes.workers.origin import Machine, Versions, own_origin
from onnx_passes.workers.protocol import Promised, Workers

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

ATTEMPTS = 3
"""Number of attempts for work whose worker was lost, as some work ends every worker."""
_LOST = ("KilledWorker", "FutureCancelledError")
"""Names of Dask's errors for a lost worker, or a scheduler that has lost a task."""


class Ended(BrokenExecutor):
    """A process that ended during its work, with its exit status if known."""


@dataclass(frozen=True)
class Lost:
    """Task whose workers were lost at each attempt."""

    attempts: int
    why: str

    def __str__(self) -> str:
        times = f", {self.attempts} times" if self.attempts > 1 else ""
        return f"its process was lost{times} ({self.why}); it may need too much memory"


@dataclass(frozen=True)
class Answer(Generic[R]):
    """The result of a worker, and its origin; a worker of other versions computes nothing."""

    origin: Machine
    result: tuple[R, ...] = ()


def answered(work: Callable[[I], R], item: I, versions: Versions) -> Answer[R]:
    """Run a task in a worker, unless its versions differ from those of the submitting process."""
    origin = own_origin()
    return Answer(origin, (work(item),) if origin.versions == versions else ())


def completed(
    workers: Workers | None,
    work: Callable[[I], R],
    items: Iterable[I],
    *,
    attempts: int = ATTEMPTS,
    ahead: int | None = None,
) -> Iterator[tuple[I, R | Lost]]:
    """Do work on all items, and yield each with its result as soon as it is done.

    Without workers it is done here, one item after the other. Errors of the work are raised here, and the rest is
    cancelled, as it is when the iterator is closed. Work of a lost worker is given to another one. With ``ahead`` only
    so many items are taken at first, and one more for each finished one. Raises UsageError if a worker has other
    versions than this process, which is checked for every item, as workers come and go.
    """
    if workers is None:
        yield from ((item, work(item)) for item in items)
        return
    done: SimpleQueue[Promised[Answer[R]]] = SimpleQueue()
    given: dict[int, tuple[Promised[Answer[R]], I, int]] = {}
    ours = own_origin().versions

    def give(item: I, attempt: int) -> None:
        promised: Promised[Answer[R]] = workers.submit(answered, work, item, ours)
        given[id(promised)] = promised, item, attempt
        promised.add_done_callback(done.put)

    waiting = iter(items)
    try:
        for item in islice(waiting, ahead):
            give(item, 1)
        while given:
            promised = done.get()
            _, item, attempt = given.pop(id(promised))
            try:
                result: R | Lost = _accepted(promised.result(), ours)
            except Exception as error:
                if not _is_loss(error):
                    raise
                if attempt < attempts:
                    give(item, attempt + 1)
                    continue
                result = Lost(attempt, str(error) if isinstance(error, Ended) else type(error).__name__)
            for following in islice(waiting, 1):
                give(following, 1)
            yield item, result
    finally:
        for promised, _, _ in given.values():
            promised.cancel()


def _accepted(answer: Answer[R], ours: Versions) -> R:
    if not answer.result:
        differences = ", ".join(answer.origin.differences(ours))
        raise UsageError(
            f"the worker on {answer.origin.host} has other versions: {differences}",
            hint="install the same on all machines, and start their workers again",
        )
    return answer.result[0]


def _is_loss(error: Exception) -> bool:
    """Return whether the worker was lost; errors of engines that are not imported are recognised by name."""
    return isinstance(error, BrokenExecutor) or any(kind.__name__ in _LOST for kind in type(error).__mro__)


def all_of(
    workers: Workers | None, work: Callable[[I], R], items: Iterable[I], lost: Callable[[I, Lost], Any]
) -> list[tuple[I, R]]:
    """Do work on all items; ``lost`` returns the error for an item that no worker survives."""
    found: list[tuple[I, R]] = []
    for item, result in completed(workers, work, items):
        if isinstance(result, Lost):
            raise lost(item, result)
        found.append((item, result))
    return found
