"""Workers of a Dask cluster: on SLURM, Kubernetes, over SSH, in a cloud, or on this machine."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.workers.protocol import Workers

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
