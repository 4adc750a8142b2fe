"""A process from which others are copied to run models: it has ONNX Runtime and little else, and no threads.

A process with threads cannot be copied safely, and the memory of one without is the greater part of a copy that runs a
small model. What is sent is the model without its weights: these lie in files, which each copy maps, so that all share
one copy of them; weights that lie in no file are put into one that is in memory. A copy is limited as a whole.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_passes.verify.run.child import Run, Started, behave, ending_with, kill, serve
from onnx_passes.verify.run.resources import Resources, memory_unlimited

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from onnx_passes.verify.run.sessions import Place


_REQUEST = 1024
_LAST_SECONDS = 5.0
"""So long the server may take to end."""
_MAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from onnx_passes.verify.run.server import main; main(int(sys.argv[2]))"
)


def has_server() -> bool:
    """Return whether processes can be copied from a server here."""
    return _server() is not None


def start(recipe: Recipe, places: Mapping[str, Place], resources: Resources) -> Started:
    """Start a process that makes a session and runs it; raises OSError if the server is gone."""
    from multiprocessing.connection import Connection

    ours, theirs = socket.socketpair()
    with theirs:
        server, pid = _forked(theirs)
    way = Connection(ours.detach())
    # How it ended, if it did, is found out by whoever asks it for something.
    with contextlib.suppress(OSError):
        way.send_bytes(_head(recipe, places, resources))
        way.send_bytes(recipe.content)
    return Started(pid, way, server.kill)


def _forked(way: socket.socket) -> tuple[Server, int]:
    for is_last in (False, True):
        server = _server()
        if server is None:
            break
        try:
            return server, server.fork(way)
        except OSError:
            # Somebody ended it: another one takes its place.
            _server_of.cache_clear()
            if is_last:
                raise
    raise OSError("no process can be started to run models in")


def _head(recipe: Recipe, places: Mapping[str, Place], resources: Resources) -> bytes:
    files = f"/proc/{os.getpid()}/fd"
    weights = [
        (
            name,
            f"{files}/{place.descriptor}",
            place.offset,
            place.dtype,
            place.shape,
            recipe.handed[name].element_type(),
        )
        for name, place in places.items()
    ]
    return json.dumps(
        {
            "weights": weights,
            "profile": recipe.profile.to_json(),
            "folder": recipe.folder,
            "limits": (resources.seconds, resources.memory),
        }
    ).encode()


class Server:
    """The process, as seen from the one that started it, with which it ends."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # It inherits the limit of this process, under which it might not even start.
        with theirs, memory_unlimited():
            # Who leads a group of its own is not interrupted with this process.
            self._process = subprocess.Popen(  # noqa: S603 - it is this interpreter
                [sys.executable, "-I", "-c", _MAIN, json.dumps(sys.path), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._way = ours
        self._lock = threading.Lock()
        weakref.finalize(self, _end, os.getpid(), ours, self._process)
        if self._answer() != os.getpid():
            raise OSError("the interpreter does not start as it should")

    def fork(self, way: socket.socket) -> int:
        """Let the server copy itself; returns the number of the process that serves at the other end of the way."""
        with self._lock:
            socket.send_fds(self._way, [b"fork"], [way.fileno()])
            return self._answer()

    def kill(self, pid: int) -> int:
        """End a copy, if it still runs; returns its status."""
        with self._lock:
            try:
                self._way.sendall(f"kill {pid}".encode())
                return self._answer()
            except OSError:
                return 0

    def _answer(self) -> int:
        answer = self._way.recv(_REQUEST)
        if not answer:
            raise OSError("the process that models run in has ended")
        return int(answer)


def _end(owner: int, way: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Let the server end, and wait for it, so that its time counts as that of a child."""
    if os.getpid() != owner:
        # A copy of the process that started it.
        return
    way.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_SECONDS)


def _server() -> Server | None:
    """Return the server of this process; None if none can be started here or, for now, there is no room for it."""
    if sys.platform != "linux" or not sys.executable:
        return None
    try:
        return _server_of(os.getpid())
    except (OSError, ValueError):
        return None


@cache
def _server_of(_process: int) -> Server:
    """Start the server of a process, once; a copy of the process has none yet."""
    return Server()


def main(descriptor: int) -> None:
    """Be the server."""
    # What all copies need.
    import onnxruntime  # noqa: F401  # pyright: ignore[reportUnusedImport]

    behave()
    with socket.socket(fileno=descriptor) as way:
        way.sendall(str(os.getppid()).encode())
        while True:
            request, received, _, _ = socket.recv_fds(way, _REQUEST, 1)
            if not request:
                os._exit(0)
            if request != b"fork":
                way.sendall(str(kill(int(request.split()[1]))).encode())
                continue
            pid = os.fork()
            if not pid:
                ending_with(partial(_serve, way, received[0]))
            os.close(received[0])
            way.sendall(str(pid).encode())


def _serve(server: socket.socket, descriptor: int) -> None:
    from multiprocessing.connection import Connection

    server.close()
    way: Connection[Any, Any] = Connection(descriptor)
    head = json.loads(way.recv_bytes())
    content = way.recv_bytes()
    # Weights are mapped before memory is limited: they are shared, and counted by whoever set the limit.
    handed = {name: _mapped(*rest) for name, *rest in head["weights"]}
    recipe = Recipe(content, handed, Profile.from_json(head["profile"]), head["folder"])
    serve(way, recipe.prepare, Resources(*head["limits"]))


@cache
def _file(path: str) -> mmap.mmap:
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _mapped(path: str, offset: int, dtype: str, shape: list[int], element: int) -> Any:
    import onnxruntime

    array = np.frombuffer(_file(path), np.dtype(dtype), math.prod(shape), offset).reshape(shape)
    make: Callable[..., Any] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
    return make(array, element)


@dataclass(frozen=True)
class Profile:
    """How ONNX Runtime is set up: by default one thread, no optimization, no prepacking.

    Results under different settings are not equal bit by bit, so one profile serves a whole run. ``round_halves``
    rounds every result in half precision, which ONNX Runtime by itself does only where a value leaves a chain of nodes.
    ``optimized`` leaves it to ONNX Runtime what to make of a model, as for users: to measure time, never to compare.
    """

    providers: tuple[str, ...] = ("CPUExecutionProvider",)
    provider_options: Any = None
    session_options: Mapping[str, str] = field(default_factory=dict[str, str])
    round_halves: bool = True
    optimized: bool = False

    def to_json(self) -> str | None:
        """Return the profile as text; None if only this process understands its options."""
        try:
            return json.dumps({**vars(self), "session_options": dict(self.session_options)})
        except (TypeError, ValueError):
            return None

    @staticmethod
    def from_json(text: str) -> Profile:
        """Return the profile that was written as text."""
        read: dict[str, Any] = json.loads(text)
        read["providers"] = tuple(read["providers"])
        return Profile(**read)


@dataclass(frozen=True)
class Recipe:
    """A session to be made of a serialised model and the weights that are handed over, by name.

    ``folder`` has the file that the weights pretend to be in, as long as ``keeper`` is there; ``options`` are further
    options of sessions.
    """

    content: bytes
    handed: Mapping[str, Any]
    profile: Profile
    folder: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    keeper: object = None

    @property
    def is_plain(self) -> bool:
        """Return whether another process can make the session, too."""
        return not self.options and self.profile.to_json() is not None

    def __call__(self) -> Any:
        """Make the session."""
        import onnxruntime

        chosen = self._options(onnxruntime)
        if self.handed:
            chosen.add_session_config_entry("session.model_external_initializers_file_folder_path", self.folder)
        for name, option in self.options.items():
            setattr(chosen, name, option)
        if self.profile.optimized and self.handed:
            # Those that are added one by one are not there yet when the model is optimized.
            chosen.add_external_initializers(list(self.handed), list(self.handed.values()))
        else:
            for name, held in self.handed.items():
                chosen.add_initializer(name, held)
        make: Callable[..., Any] = onnxruntime.InferenceSession
        providers = list(self.profile.providers)
        return make(self.content, chosen, providers=providers, provider_options=self.profile.provider_options)

    def prepare(self) -> tuple[Run, object]:
        """Make the session; returns what runs it, and its outputs."""
        session = self()
        return session.run, described(session)

    def _options(self, onnxruntime: Any) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        if not self.profile.optimized:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            # Planning which tensors share memory takes more than linear time; buffers are freed without it, too.
            options.enable_mem_reuse = options.enable_mem_pattern = False
            options.add_session_config_entry("session.disable_prepacking", "1")
            # By default a weight of half precision is widened, by a Cast of ONNX Runtime's, long before it is read.
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        for key, text in self.profile.session_options.items():
            options.add_session_config_entry(key, str(text))
        return options


def described(session: Any) -> list[tuple[str, str, Any]]:
    """Return name, type and shape of every output of a session."""
    return [(output.name, output.type, output.shape) for output in session.get_outputs()]
