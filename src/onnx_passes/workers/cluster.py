"""Those who do the work of a run: how many they are, and where they find models and data."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnx_passes.core.errors import UsageError
from onnx_passes.workers.completed import Lost, completed
from onnx_passes.workers.processes import Processes
from onnx_passes.workers.protocol import Workers
from onnx_passes.workers.store import Store

PRELOADED = ("onnxruntime", "onnx_passes.verify.metrics.shards")
"""Modules that processes on this machine load once for all of them."""


@dataclass(frozen=True)
class Cluster:
    """Workers, how many of them work at once, and the store in which they find what they work on."""

    workers: Workers
    size: int
    store: Store
    is_local: bool = False
    """Whether they are processes of this machine, which are lost only by what they do."""


@contextlib.contextmanager
def local_cluster(size: int, *, store: str | None = None, preload: Sequence[str] = PRELOADED) -> Generator[Cluster]:
    """Start so many processes on this machine; 0 is as many as there are processors."""
    with _store(store) as place, Processes(size or os.cpu_count() or 1, preload=preload) as workers:
        yield Cluster(workers, size or os.cpu_count() or 1, place, is_local=True)


@contextlib.contextmanager
def dask_cluster(scheduler: str, *, store: str | None = None, uses_store: bool = True) -> Generator[Cluster]:
    """Join a cluster of Dask by the address of its scheduler, as ``tcp://host:8786``.

    Workers must see the store, unless it is not used: then they open files where they are (``require_seen``).
    """
    from onnx_passes.workers.dask import connected

    with connected(scheduler) as (workers, size), _store(store) as place:
        cluster = Cluster(workers, size, place)
        require_fit(cluster, uses_store=uses_store)
        yield cluster


@contextlib.contextmanager
def cluster_of(workers: Workers, size: int, *, store: str | None = None) -> Generator[Cluster]:
    """Take any executor of ``concurrent.futures`` whose workers are processes; ``size`` of them work at once."""
    with _store(store) as place:
        cluster = Cluster(workers, size, place)
        require_fit(cluster)
        yield cluster


def require_fit(cluster: Cluster, *, uses_store: bool = True) -> None:
    """Refuse workers that do not see the store, or would compute something else."""
    name = cluster.store.put(os.urandom(16))
    for _, answer in completed(cluster.workers, _look, [(cluster.store, name)]):
        if isinstance(answer, Lost):
            raise UsageError(f"a worker cannot be used: {answer}")
        if uses_store and not answer:
            raise UsageError(
                "workers do not see the folder in which they would find models",
                where=cluster.store.location,
                hint="--store names a folder or URL that this machine and all workers see",
            )


def require_seen(cluster: Cluster, file: Path, folder: Path) -> None:
    """Refuse workers that do not see a file that they are to read, or a folder that they are to write to."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".seen-") as probe:
        wanted = {str(file): str(file), probe.name: str(folder)}
        for _, answer in completed(cluster.workers, _missing, [tuple(wanted)]):
            if isinstance(answer, Lost):
                raise UsageError(f"a worker cannot be used: {answer}")
            for path in answer:
                raise UsageError(
                    "workers do not see this",
                    where=wanted[path],
                    hint="models and results lie in folders that all workers see, under the same path",
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
