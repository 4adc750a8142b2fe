"""Options that say who does the work: processes on this machine, or a cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onnx_passes.core.errors import UsageError

if TYPE_CHECKING:
    from onnx_passes.workers.cluster import Cluster

_EVERY_RUN = ("onnxruntime", "onnx_passes.api", "onnx_passes.report.summary", "onnx_passes.cli.work")
"""What every run imports."""
F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """Let the user say who does the work."""
    jobs = click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=0),
        default=1,
        metavar="N",
        show_default=True,
        help="Processes that work at once, on several models or on one dataset; 0 is one for each processor.",
    )
    scheduler = click.option(
        "--scheduler", metavar="ADDRESS", help="Work on a cluster of Dask, as tcp://host:8786, instead of here."
    )
    store = click.option(
        "--store",
        metavar="DIR",
        help="Folder or URL that all workers see, for what they measure on a dataset [default: a temporary folder].",
    )
    return jobs(scheduler(store(function)))


@contextlib.contextmanager
def cluster_asked(
    jobs: int, scheduler: str | None, store: str | None, *, preload: Sequence[str] = ()
) -> Generator[Cluster | None]:
    """Start or join those who do the work; nobody, if this process is to do it alone.

    ``preload`` names modules that processes on this machine need beside the usual ones.
    """
    _refuse_both(jobs, scheduler)
    if scheduler is None and jobs == 1:
        if store is not None:
            raise UsageError("--store is for workers, and there are none", hint="give --jobs or --scheduler")
        yield None
        return
    from onnx_passes.workers.cluster import PRELOADED, dask_cluster, local_cluster

    if scheduler is None:
        found = local_cluster(jobs, store=store, preload=(*PRELOADED, *preload))
    else:
        found = dask_cluster(scheduler, store=store)
    with found as cluster:
        yield cluster


@contextlib.contextmanager
def cluster_for_models(jobs: int, scheduler: str | None, store: str | None) -> Generator[Cluster]:
    """Start or join those who run models: never this process, which a model might take along when it crashes."""
    from onnx_passes.workers.cluster import dask_cluster, local_cluster
    from onnx_passes.workers.sharing import sharing_processors

    if scheduler is not None:
        _refuse_both(jobs, scheduler)
        with dask_cluster(scheduler, store=store, uses_store=False) as cluster:
            yield cluster
        return
    with sharing_processors(at_once(jobs)), local_cluster(jobs, store=store, preload=_EVERY_RUN) as cluster:
        yield cluster


def _refuse_both(jobs: int, scheduler: str | None) -> None:
    if scheduler is not None and jobs != 1:
        raise UsageError("--jobs is for this machine, --scheduler for another", hint="give one of them")


def at_once(jobs: int) -> int:
    """Return how many processes that is."""
    return jobs or os.cpu_count() or 1
