"""The required interface of workers: that of ``concurrent.futures``, which every engine offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Promised(Protocol[T_co]):
    """Result of a submitted task: a future."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result."""
        ...

    def cancel(self) -> bool:
        """Cancel the task if it has not started."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call a function when the task is done."""
        ...


class Workers(Protocol):
    """Worker processes: any ``concurrent.futures.Executor`` of processes.

    Executors of Dask (``client.get_executor()``) and loky are accepted. Functions are named by module, and arguments
    are small: models and data are files, which workers read themselves.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Promised[Any]:
        """Submit work."""
        ...
