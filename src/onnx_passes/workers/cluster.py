"""The workers of a run, on this machine or on a Dask cluster, and the store of models and data."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.workers.completed import Lost, completed
from onnx_passes.workers.processes import Processes
from onnx_passes.workers.protocol import Workers
from onnx_passes.workers.store import Store

PRELOADED = ("onnxruntime", "onnx_passes.verify.metrics.shards")
"""Modules that are loaded once for all processes on this machine."""


@dataclass(frozen=True)
class Cluster:
    """Workers, the number of them that work at once, and the store of their models and data."""

    workers: Workers
    size: int
    store: Store
    is_local: bool = False
    """Whether they are processes of this machine, which are lost only because of their work."""


@contextlib.contextmanager
def local_cluster(size: int, *, store: str | None = None, preload: Sequence[str] = PRELOADED) -> Generator[Cluster]:
    """Start processes on this machine; 0 is one for each processor."""
    with _store(store) as place, Processes(size or os.cpu_count() or 1, preload=preload) as workers:
        yield Cluster(workers, size or os.cpu_count() or 1, place, is_local=True)


@contextlib.contextmanager
def dask_cluster(scheduler: str, *, store: str | None = None, uses_store: bool = True) -> Generator[Cluster]:
    """Connect to a cluster of Dask by the address of its scheduler, as ``tcp://host:8786``.

    Workers must have access to the store. If it is not used, they open files under their path (``require_seen``).
    """
    from onnx_passes.workers.cluster import connected

    with connected(scheduler) as (workers, size), _store(store) as place:
        cluster = Cluster(workers, size, place)
        require_fit(cluster, uses_store=uses_store)
        yield cluster


@contextlib.contextmanager
def cluster_of(workers: Workers, size: int, *, store: str | None = None) -> Generator[Cluster]:
    """Yield a cluster of any ``concurrent.futures`` executor with worker processes; ``size`` of them work at once."""
    with _store(store) as place:
        cluster = Cluster(workers, size, place)
        require_fit(cluster)
        yield cluster


def require_fit(cluster: Cluster, *, uses_store: bool = True) -> None:
    """Refuse workers that have no access to the store, or have other versions."""
    name = cluster.store.put(os.urandom(16))
    for _, answer in completed(cluster.workers, _look, [(cluster.store, name)]):
        if isinstance(answer, Lost):
            raise UsageError(f"a worker cannot be used: {answer}")
        if uses_store and not answer:
            raise UsageError(
                "workers have no access to the store",
                where=cluster.store.location,
                hint="name a folder or URL for --store that this machine and all workers can access",
            )


def require_seen(cluster: Cluster, file: Path, folder: Path) -> None:
    """Refuse workers that have no access to a file to read, or to a folder for results."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-") as probe:
        wanted = {str(file): str(file), probe.name: str(folder)}
        for _, answer in completed(cluster.workers, _missing, [tuple(wanted)]):
            if isinstance(answer, Lost):
                raise UsageError(f"a worker cannot be used: {answer}")
            for path in answer:
                raise UsageError(
                    "workers have no access to this path",
                    where=wanted[path],
                    hint="models and results must be in folders that all workers can access, under the same path",
                )


def _look(what: tuple[Store, str]) -> bool:
    store, name = what
    return store.path(name) is not None


def _missing(paths: tuple[str, ...]) -> list[str]:
    return [path for path in paths if not Path(path).exists()]


@contextlib.contextmanager
def _store(location: str | None) -> Generator[Store]:
    if location is not None:
        yield Store(location)
        return
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        yield Store(folder)


_SECONDS = 10


@contextlib.contextmanager
def connected(scheduler: str) -> Generator[tuple[Workers, int]]:
    """Connect to a scheduler, and return its workers and their number of concurrent tasks."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UsageError("Dask is not installed", hint="pip install 'onnx-passes[dask]'") from None
    try:
        client = distributed.Client(scheduler, timeout=_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(
            f"the scheduler does not answer ({str(error).splitlines()[0]})",
            where=scheduler,
            hint="start one with 'dask scheduler', and workers with 'dask worker ADDRESS'",
        ) from error
    try:
        size = sum(client.nthreads().values())
        if not size:
            raise UsageError("the scheduler has no workers", where=scheduler, hint=f"start 'dask worker {scheduler}'")
        yield client.get_executor(pure=False), size
    finally:
        client.close()
