"""Metrics over a dataset that workers share: are they equal, how much faster, and what a task costs.

    python benchmarks/datasets.py [--images N] [--batch N] [--repeat N]

The example CNN is streamlined, and its metrics are measured before and after every step on N generated images: in one
process, in one and in two worker processes, and by two workers of a Dask cluster on this machine. For each: seconds of
wall clock and of processors (all processes together), the least of several runs that take turns; efficiency is the
time in one worker process over twice that in two. Then what one task costs that does nothing. From these figures
follows what ImageNet takes on many workers, and where the scheduler becomes the limit. Needs psutil and distributed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import onnx_passes
from onnx_passes import examples
from onnx_passes.check.measuring import Measuring
from onnx_passes.verify.metrics.shards import shards_for
from onnx_passes.workers.cluster import Cluster, dask_cluster, local_cluster
from onnx_passes.workers.completed import completed

METRICS = ("accuracy", "top_5_accuracy", "count_mispredictions", "mean_abs_error", "psnr", "cosine_similarity")
TASKS = 1000
IMAGENET, STEPS, SECONDS_PER_IMAGE = 50_000, 20, 0.02
"""Images for validation, steps of a run, and the time of one image in a ResNet-50 on one thread (an assumption)."""
WORKERS = (1, 16, 64, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images, labels = generated(Path(folder), arguments.images)
        measured(images, labels, arguments.batch, arguments.repeat)


def generated(folder: Path, count: int) -> tuple[Path, Path]:
    """Draw images of digits with noise."""
    digits, rng = examples.digits(), np.random.default_rng(0)
    chosen = rng.integers(0, len(digits.image), count)
    noise = rng.normal(0, 0.1, (count, *digits.image.shape[1:])).astype(np.float32)
    np.save(folder / "images.npy", digits.image[chosen] + noise)
    np.save(folder / "labels.npy", digits.label[chosen])
    return folder / "images.npy", folder / "labels.npy"


def measured(images: Path, labels: Path, batch: int, repeat: int) -> None:
    values: list[Any] = []
    seconds: dict[str, list[tuple[float, float]]] = {}
    costs: dict[str, float] = {}
    for _ in range(repeat):
        for name, start in CLUSTERS.items():
            with start() as cluster:
                run(cluster, images, labels, batch, first=True)
                before = processor_seconds()
                clock = time.perf_counter()
                values.append(run(cluster, images, labels, batch))
                seconds.setdefault(name, []).append(
                    (time.perf_counter() - clock, processor_seconds() - before),
                )
                if cluster is not None:
                    costs[name] = min(costs.get(name, np.inf), task_cost(cluster))
    print("all values equal to the last bit:", all(value == values[0] for value in values))
    print("\n| workers | wall s | CPU s | a task that does nothing, ms |\n| --- | --- | --- | --- |")
    least = {name: tuple(min(column) for column in zip(*found, strict=True)) for name, found in seconds.items()}
    for name, (wall, cpu) in least.items():
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {f'{1e3 * costs[name]:.2f}' if name in costs else ''} |")
    for one, two in (("1 process", "2 processes"), ("Dask, 1 worker", "Dask, 2 workers")):
        print(f"\nefficiency of {two}: {least[one][0] / (2 * least[two][0]):.0%} (wall)", end="")
        print(f", {least[one][1] / least[two][1]:.0%} (CPU)")
    predict(costs["Dask, 2 workers"])


def run(cluster: Cluster | None, images: Path, labels: Path, batch: int, *, first: bool = False) -> list[Any]:
    """Streamline, and return all values; the first time only to load what is needed."""
    measuring = Measuring(dict.fromkeys(METRICS), dataset=[images], expect=[labels], batch=batch, cluster=cluster)
    if first:
        return [onnx_passes.apply(examples.path("digits-mlp"), "cleanup", verify=False).record]
    result = onnx_passes.apply(examples.path("digits-cnn"), "streamline", metrics=measuring, verify=False)
    return [result.record.metrics, *(step.metrics for step in result.steps)]


def task_cost(cluster: Cluster) -> float:
    """Return the seconds of a task that does nothing."""
    list(completed(cluster.workers, abs, range(50)))
    clock = time.perf_counter()
    list(completed(cluster.workers, abs, range(TASKS)))
    return (time.perf_counter() - clock) / TASKS


def processor_seconds() -> float:
    """Return the processor time of this process and of all that it started."""
    total = 0.0
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def predict(cost: float) -> None:
    """Say what a large dataset takes on many workers."""
    work = IMAGENET * SECONDS_PER_IMAGE
    print(f"\n{IMAGENET} images × {STEPS} steps, {1e3 * SECONDS_PER_IMAGE:g} ms an image, {1e3 * cost:.2f} ms a task")
    print("\n| workers | tasks a step | s a step | of these the scheduler | in all, min |")
    print("| --- | --- | --- | --- | --- |")
    for workers in WORKERS:
        tasks = shards_for(workers)
        scheduler = tasks * cost
        step = max(work / workers, scheduler)
        print(f"| {workers} | {tasks} | {step:.1f} | {scheduler / step:.1%} | {STEPS * step / 60:.1f} |")
    limit = next(workers for workers in range(1, 10_000) if shards_for(workers) * cost > work / workers)
    print(f"\nThe scheduler is the limit from about {limit} workers on.")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    yield None


@contextlib.contextmanager
def _dask(count: int) -> Iterator[Cluster]:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None) as local,
        dask_cluster(local.scheduler_address) as cluster,
    ):
        yield cluster


CLUSTERS = {
    "in process": _alone,
    "1 process": lambda: local_cluster(1),
    "2 processes": lambda: local_cluster(2),
    "Dask, 1 worker": lambda: _dask(1),
    "Dask, 2 workers": lambda: _dask(2),
}

if __name__ == "__main__":
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    main()
