"""A cluster of Dask, started by hand, and programs that join it.

Both are processes of their own: Dask leaves threads behind, and where there are threads memory is not limited.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
_READY = "import sys, distributed; distributed.Client(sys.argv[1], timeout=60).wait_for_workers(2, timeout=60)"


@contextlib.contextmanager
def two_workers(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and two workers; yields its address, and all processes."""
    if importlib.util.find_spec("distributed") is None:
        pytest.skip("Dask is not installed")
    file, started = folder / "scheduler.json", list[subprocess.Popen[bytes]]()

    def start(kind: str, *words: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words, f"--scheduler-file={file}"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(command, cwd=folder, env=_ENVIRONMENT, **silent))

    start("scheduler", "--port", "0", "--no-dashboard")
    for _ in range(2):
        start("worker", "--nthreads", "1", "--no-dashboard", "--no-nanny")
    try:
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        python("-c", _READY, address)
        yield address, started
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def python(*words: object) -> str:
    """Run a program of Python, and return what it printed."""
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
