"""Run a model in a process of its own, which may crash or take too long or too much memory.

The process is a copy of this one (``fork``), so that nothing is imported or sent but the samples and the results, or
one that another way of starting it yields.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import math
import os
import signal
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, cast

import numpy as np

from onnx_passes.verify.run.resources import Resources, is_memory_error, memory_limited

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


Feeds = dict[str, Any]
Run = Callable[[Sequence[str], Feeds], list[Any]]

_OK, _FAILED, _NO_MEMORY = b"ok", b"failed", b"memory"
_WITHOUT_MEMORY = 77
"""The exit code of a process that got no memory for its samples or results."""


def can_fork() -> bool:
    """Return whether this process can be copied: on macOS and Windows libraries do not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


class ChildError(Exception):
    """The process cannot do what it was asked for, and says why."""


class DiedError(ChildError):
    """The process died."""


def kill(pid: int) -> int:
    """End a child of this process, if it still runs; returns its status."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


@dataclass(frozen=True)
class Started:
    """A process: its number, the way to it, and what ends it."""

    pid: int
    way: Connection
    kill: Callable[[int], int] = kill

    def end(self) -> int:
        """End the process, if it still runs; returns its status."""
        with contextlib.suppress(OSError):
            self.way.close()
        return self.kill(self.pid)


class Child:
    """Whatever ``prepare`` returns, called in a process of its own; after its death another one takes its place.

    ``start`` starts the process in another way than as a copy of this one, ``left`` returns what it may take; with
    ``brief`` it ends after each run, so that it holds no memory between them. Raises ChildError if the model says so,
    DiedError if the process did not survive, TimeoutError and MemoryError.
    """

    def __init__(
        self,
        prepare: Callable[[], tuple[Run, object]],
        resources: Resources,
        *,
        start: Callable[[Resources], Started] | None = None,
        left: Callable[[], Resources] | None = None,
        brief: bool = False,
    ) -> None:
        self._new = start or partial(_copy, prepare)
        self._left = left or (lambda: resources)
        self._resources = resources
        self._brief = brief
        self._started: Started | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self.known = self._start()

    def run(self, names: Sequence[str], feeds: Feeds) -> list[Any]:
        """Run the model."""
        if self._started is None:
            self._start()
        started = cast("Started", self._started)
        try:
            _send(started.way, [list(names), list(feeds)])
            for array in feeds.values():
                _send(started.way, array)
        except OSError:
            self._died()
        self._answer(started)
        try:
            results = [_receive(started.way) for _ in names]
        except (EOFError, OSError):
            self._died()
        if self._brief:
            self._forget()
        return results

    def _start(self) -> object:
        started = self._new(self._left())
        self._started = started
        self._finalizer = weakref.finalize(self, started.end)
        self._answer(started)
        return _receive(started.way)

    def _answer(self, started: Started) -> None:
        """Wait for the process to have done what it was asked for."""
        if not started.way.poll(self._resources.seconds):
            self._forget()
            raise TimeoutError
        try:
            answer = started.way.recv_bytes()
        except (EOFError, OSError):
            self._died()
        if answer == _NO_MEMORY:
            self._forget()
            raise MemoryError
        if answer == _FAILED:
            raise ChildError(str(_receive(started.way)))

    def _died(self) -> NoReturn:
        status = self._forget()
        if os.waitstatus_to_exitcode(status) == _WITHOUT_MEMORY:
            raise MemoryError
        raise DiedError(how_ended(status))

    def _forget(self) -> int:
        assert self._started is not None
        assert self._finalizer is not None
        self._finalizer.detach()
        status, self._started = self._started.end(), None
        return status


def _copy(prepare: Callable[[], tuple[Run, object]], resources: Resources) -> Started:
    return fork(lambda way: serve(way, prepare, resources))


def how_ended(status: int) -> str:
    """Name the signal, or the exit code, of a process that has ended."""
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def fork(serve: Callable[[Connection], None]) -> Started:
    """Let a copy of this process serve whoever is at the other end of the way, and end with that."""
    from multiprocessing.connection import Pipe

    ours, theirs = Pipe()
    with warnings.catch_warnings():
        # Python warns of threads: those of numpy survive a fork, and the copy does nothing but run models.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        theirs.close()
        return Started(pid, ours)
    return ending_with(lambda: (ours.close(), behave(), serve(theirs)))


def ending_with(work: Callable[[], object]) -> NoReturn:
    """Do something and end the process; nothing that it is a copy of may be cleaned up here."""
    code = 0
    try:
        work()
    except MemoryError:
        code = _WITHOUT_MEMORY
    finally:
        os._exit(code)


def serve(way: Connection, prepare: Callable[[], tuple[Run, object]], resources: Resources) -> None:
    """Be the process: prepare, and run what comes until nobody asks any more."""
    gc.disable()
    limit_processor(resources.seconds)
    with memory_limited(resources.memory), contextlib.suppress(EOFError, OSError):
        made = _tell(way, prepare)
        if made is None:
            return
        run, known = made
        _send(way, known)
        while True:
            names, fed = _receive(way)
            feeds = {name: _receive(way) for name in fed}
            limit_processor(resources.seconds)
            results = _tell(way, lambda names=names, feeds=feeds: run(names, feeds))
            del feeds
            for result in results or ():
                _send(way, result)


def behave() -> None:
    """Leave interrupts to the parent, and be silent about what it will say."""
    import resource

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.disable()
    silent = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(silent, descriptor)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_processor(seconds: float) -> None:
    """Do not outlive a parent that was killed: it cannot end a loop any more."""
    import resource

    used = time.process_time() + seconds * (os.cpu_count() or 1)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used) + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _tell(way: Connection, work: Callable[[], Any]) -> Any:
    """Do something and tell how it went; returns what came out, or nothing."""
    try:
        done = work()
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
        if is_memory_error(error):
            way.send_bytes(_NO_MEMORY)
        else:
            way.send_bytes(_FAILED)
            _send(way, f"{error}")
        return None
    way.send_bytes(_OK)
    return done


def _send(way: Connection, value: Any) -> None:
    """Send arrays as their bytes, anything else as JSON; sequences piece by piece."""
    if isinstance(value, np.ndarray):
        _send_array(way, cast("np.ndarray[Any, Any]", value))
    elif isinstance(value, list) and any(isinstance(item, np.ndarray) for item in cast("list[Any]", value)):
        items = cast("list[Any]", value)
        way.send_bytes(json.dumps({"items": len(items)}).encode())
        for item in items:
            _send(way, item)
    elif is_map(cast("object", value)):
        way.send_bytes(json.dumps(packed(cast("dict[Any, Any] | list[dict[Any, Any]]", value))).encode())
    else:
        way.send_bytes(json.dumps({"plain": value}).encode())


def _send_array(way: Connection, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.kind == "O":
        way.send_bytes(json.dumps({"texts": array.reshape(-1).tolist(), "shape": array.shape}).encode())
        return
    way.send_bytes(json.dumps({"array": array.dtype.str, "shape": array.shape}).encode())
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while content:
        content = content[os.write(way.fileno(), content) :]


def _receive(way: Connection) -> Any:
    head = json.loads(way.recv_bytes())
    if "plain" in head:
        return head["plain"]
    if "maps" in head:
        return unpacked(head)
    if "items" in head:
        return [_receive(way) for _ in range(head["items"])]
    shape = tuple(head["shape"])
    if "texts" in head:
        texts = np.empty(len(head["texts"]), dtype=object)
        texts[:] = head["texts"]
        return texts.reshape(shape)
    array = np.empty(shape, np.dtype(head["array"]))
    content = array.reshape(-1).view(np.uint8).data
    while content:
        read = os.readv(way.fileno(), [content])
        if not read:
            raise EOFError
        content = content[read:]
    return array


KEYS = " keys"
"""Behind the name of an output, that of the keys of its maps."""


def is_map(value: object) -> TypeGuard[dict[Any, Any] | list[dict[Any, Any]]]:
    """Return whether a result is a map, or a sequence of maps that is not empty."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        return bool(items) and all(isinstance(item, dict) for item in items)
    return isinstance(value, dict)


def with_maps_as_arrays(results: Iterable[tuple[str, Any]]) -> dict[str, np.ndarray]:
    """Give each output of maps two entries: its values under its name, one row for each map, and their keys."""
    found: dict[str, np.ndarray] = {}
    for name, value in results:
        if not is_map(value):
            found[name] = value
            continue
        maps = [value] if isinstance(value, dict) else value
        ordered = [dict(sorted(each.items())) for each in maps]
        found[name] = _rows([[*each.values()] for each in ordered])
        found[name + KEYS] = _rows([[*each] for each in ordered])
    return found


def _rows(rows: list[list[Any]]) -> np.ndarray:
    """Return rows of one length as a matrix, others behind one another."""
    elements = [element for row in rows for element in row]
    if elements and all(isinstance(element, float) for element in elements):
        array = np.array(elements, np.float32)
    else:
        array = np.array(elements, np.int64 if all(isinstance(each, int) for each in elements) else object)
    lengths = {len(row) for row in rows}
    return array.reshape(len(rows), -1) if len(lengths) == 1 and elements else array


def packed(value: dict[Any, Any] | list[dict[Any, Any]]) -> Mapping[str, Any]:
    """Return maps as plain data, whose keys keep their type: keys of objects in JSON are texts."""
    single = isinstance(value, dict)
    return {"maps": [[*each.items()] for each in ([value] if single else value)], "single": single}


def unpacked(data: Mapping[str, Any]) -> dict[Any, Any] | list[dict[Any, Any]]:
    """Return the maps of plain data."""
    maps = [dict(items) for items in data["maps"]]
    return maps[0] if data["single"] else maps
