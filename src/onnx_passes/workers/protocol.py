"""What we ask of whoever does work for us: what ``concurrent.futures`` has, and every engine offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Promised(Protocol[T_co]):
    """Work that was given away: a future."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for what came of it."""
        ...

    def cancel(self) -> bool:
        """Do not begin with it, if it has not begun."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call something when it is done."""
        ...


class Workers(Protocol):
    """Processes that do work: any ``concurrent.futures.Executor`` of processes is one.

    So are those of Dask (``client.get_executor()``) and loky. Functions are named by their module, and what goes along
    is small: models and data are files, which workers read themselves.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Promised[Any]:
        """Give work away."""
        ...
