"""Options for parallel runs: processes on this machine, or a cluster."""

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
"""Modules that every run imports."""
F = TypeVar("F", bound=Callable[..., Any])


def cluster_options(function: F) -> F:
    """Add the options for parallel runs to a command."""
    jobs = click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=0),
        default=1,
        metavar="N",
        show_default=True,
        help="Number of processes, for several models or for one dataset; 0 is one for each processor.",
    )
    scheduler = click.option("--scheduler", metavar="ADDRESS", help="Use a cluster of Dask, as tcp://host:8786.")
    store = click.option(
        "--store",
        metavar="DIR",
        help="Folder or URL that all workers can access, for datasets and models [default: a temporary folder].",
    )
    return jobs(scheduler(store(function)))


@contextlib.contextmanager
def cluster_asked(
    jobs: int, scheduler: str | None, store: str | None, *, preload: Sequence[str] = ()
) -> Generator[Cluster | None]:
    """Return the cluster of the options; None to compute in this process.

    ``preload`` names modules that processes on this machine import besides the usual ones.
    """
    _refuse_both(jobs, scheduler)
    if scheduler is None and jobs == 1:
        if store is not None:
            raise UsageError("--store needs workers", hint="give --jobs or --scheduler")
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
    """Return a cluster that runs models, never in this process, which a model could crash."""
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
        raise UsageError("--jobs and --scheduler exclude each other", hint="give one of them")


def at_once(jobs: int) -> int:
    """Return the number of processes for ``--jobs``."""
    return jobs or os.cpu_count() or 1
