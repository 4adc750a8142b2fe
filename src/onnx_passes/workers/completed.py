"""Give work away and take what comes back, whatever becomes of those who do it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from onnx_passes.core.errors import UsageError
from onnx_passes.workers.origin import Origin, Versions, own_origin
from onnx_passes.workers.protocol import Promised, Workers

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

ATTEMPTS = 3
"""So often work is given away again whose worker was lost; what ends every worker is not tried for ever."""
_LOST = ("KilledWorker", "FutureCancelledError")
"""How Dask says that the worker is gone, or the scheduler has forgotten what it was to do."""


class Ended(BrokenExecutor):
    """A process ended in the middle of its work, and it is known how."""


@dataclass(frozen=True)
class Lost:
    """Work whose workers were lost, each time it was tried."""

    attempts: int
    why: str

    def __str__(self) -> str:
        times = f", {self.attempts} times" if self.attempts > 1 else ""
        return f"its process was lost{times} ({self.why}); it may need too much memory"


@dataclass(frozen=True)
class Answer(Generic[R]):
    """What a worker computed, and who it is; a worker of other versions computes nothing."""

    origin: Origin
    result: tuple[R, ...] = ()


def answered(work: Callable[[I], R], item: I, versions: Versions) -> Answer[R]:
    """Do work in a worker, unless it would compute something else than the process that gives the work away."""
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
    """Do work on all items, and yield each with what came of it as soon as it is done.

    Without workers it is done here, one after the other. What the work raises is raised here, and the rest is
    cancelled, as it is when nobody listens any more. Whatever a lost worker had begun is given to another one.
    With ``ahead`` only so many items are taken at first, and another one for each that is done. Raises UsageError if a
    worker has other versions than this process: each is asked with each item, since workers come and go.
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
    """Tell whether the worker was lost; engines that are not imported say so by the name of what they raise."""
    return isinstance(error, BrokenExecutor) or any(kind.__name__ in _LOST for kind in type(error).__mro__)


def all_of(
    workers: Workers | None, work: Callable[[I], R], items: Iterable[I], lost: Callable[[I, Lost], Any]
) -> list[tuple[I, R]]:
    """Do work on all items; ``lost`` raises what is to be said of one that no worker survives."""
    found: list[tuple[I, R]] = []
    for item, result in completed(workers, work, items):
        if isinstance(result, Lost):
            raise lost(item, result)
        found.append((item, result))
    return found
