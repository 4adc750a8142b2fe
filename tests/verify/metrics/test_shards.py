"""Workers share a dataset, and what they measure is what one process measures, to the last bit."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_passes import apply, examples
from onnx_passes.check.measuring import Measuring
from onnx_passes.core.errors import UsageError
from onnx_passes.verify.failure import VerificationError
from onnx_passes.workers.cluster import Cluster, cluster_of, local_cluster
from tests.helpers.dask import python, two_workers

METRICS = ("accuracy", "top_5_accuracy", "count_mispredictions", "mean_abs_error", "psnr", "cosine_similarity")
Data = tuple[Path, Path]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("data")
    digits, rng = examples.digits(), np.random.default_rng(0)
    chosen = rng.integers(0, len(digits.image), 1_500)
    noise = rng.normal(0, 0.1, (len(chosen), *digits.image.shape[1:])).astype(np.float32)
    np.save(folder / "images.npy", digits.image[chosen] + noise)
    np.save(folder / "labels.npy", digits.label[chosen])
    return folder / "images.npy", folder / "labels.npy"


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with local_cluster(2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def alone(data: Data) -> list[dict[str, float] | None]:
    return measured(data, None)


def measured(data: Data, cluster: Cluster | None, *, with_labels: bool = True) -> list[dict[str, float] | None]:
    """Measure before and after every step of a pipeline that rounds elsewhere."""
    images, labels = data
    measuring = Measuring(
        dict.fromkeys(METRICS), dataset=[images], expect=[labels] if with_labels else (), cluster=cluster
    )
    result = apply(examples.path("digits-cnn"), "streamline", metrics=measuring, verify=False)
    return [result.record.metrics, *(step.metrics for step in result.steps)]


def test_two_processes_measure_what_one_does(data: Data, two: Cluster, alone: list[Any]):
    assert measured(data, two) == alone
    assert alone[0]["accuracy"] < 1
    assert 0 < alone[-1]["mean_abs_error"] < 1e-4 if alone[-1] else True


def test_against_the_original_model_alone(data: Data, two: Cluster):
    assert measured(data, two, with_labels=False) == measured(data, None, with_labels=False)


def test_models_and_results_are_stored_once(data: Data, two: Cluster):
    measured(data, two)
    before = set(Path(two.store.location).iterdir())
    assert any(path.name.startswith("original-") for path in before)
    measured(data, two)
    assert set(Path(two.store.location).iterdir()) == before


def test_arrays_in_memory_are_shared_out_as_files(data: Data, two: Cluster, alone: list[Any]):
    images, labels = (np.load(path) for path in data)
    measuring = Measuring({"psnr": None, "accuracy": None}, dataset=[images], expect=[labels], cluster=two)
    result = apply(examples.path("digits-cnn"), "streamline", metrics=measuring, verify=False)
    found = [step.metrics for step in result.steps if step.metrics]
    assert found == [{name: step[name] for name in ("psnr", "accuracy")} for step in alone[1:] if step]


def test_a_file_that_took_the_name_of_another_is_read_anew(data: Data, two: Cluster, tmp_path: Path):
    found: list[float] = []
    for shift in (0, 1):
        np.save(tmp_path / "labels.npy", (np.load(data[1]) + shift) % 10)
        measuring = Measuring({"accuracy": None}, dataset=[data[0]], expect=[tmp_path / "labels.npy"], cluster=two)
        metrics = apply(examples.path("digits-cnn"), "cleanup", metrics=measuring, verify=False).record.metrics
        found.append(metrics["accuracy"])
    assert found[0] > 0.9
    assert found[1] < 0.2


def test_the_range_of_a_metric_holds(data: Data, two: Cluster):
    images, labels = data
    measuring = Measuring({"accuracy": (0.999, None)}, dataset=[images], expect=[labels], cluster=two)
    with pytest.raises(VerificationError, match="before any pass ran"):
        apply(examples.path("digits-cnn"), "cleanup", metrics=measuring)


def test_data_that_do_not_fit_are_a_mistake_of_the_user(data: Data, two: Cluster, tmp_path: Path):
    labels = np.load(data[1])
    np.save(tmp_path / "few.npy", labels[:7])
    measuring = Measuring({"accuracy": None}, dataset=[data[0]], expect=[tmp_path / "few.npy"], cluster=two)
    with pytest.raises(UsageError, match="1500 samples of inputs, but expected outputs of shape"):
        apply(examples.path("digits-cnn"), "cleanup", metrics=measuring)


def recall(expected: np.ndarray, found: np.ndarray) -> float:
    return float((found.argmax(axis=-1) == expected).mean())


def test_a_metric_of_the_user(data: Data, two: Cluster):
    found: list[Any] = []
    for cluster in (None, two):
        measuring = Measuring({recall: None}, dataset=[data[0]], expect=[data[1]], batch=100, cluster=cluster)
        found.append(apply(examples.path("digits-cnn"), "cleanup", metrics=measuring).record.metrics)
    assert found[0] == found[1]
    assert found[0]["recall"] > 0.9


class Unlucky:
    """A metric whose first process is lost in the middle of a shard."""

    __name__ = "unlucky"

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __call__(self, expected: np.ndarray, found: np.ndarray) -> float:
        try:
            self._mark.touch(exist_ok=False)
        except FileExistsError:
            return recall(expected, found)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def with_a_loss(data: Data, cluster: Cluster, mark: Path) -> tuple[Any, Any]:
    """Measure with and without a loss."""
    found: list[Any] = []
    for metric in (recall, Unlucky(mark)):
        measuring = Measuring({metric: None}, dataset=[data[0]], expect=[data[1]], cluster=cluster)
        record = apply(examples.path("digits-cnn"), "streamline", metrics=measuring, verify=False).record
        found.append([record.metrics, *(step.metrics for step in record.steps)])
    assert mark.exists()
    return tuple([list(one.values()) if one else one for one in metrics] for metrics in found)


def test_a_lost_process_costs_its_shard_only(data: Data, two: Cluster, tmp_path: Path):
    usual, unlucky = with_a_loss(data, two, tmp_path / "mark")
    assert unlucky == usual


class Hasty(ThreadPoolExecutor):
    """An executor that somebody has: it does tasks in reverse order."""

    def __init__(self) -> None:
        super().__init__(1)
        self._later: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        future: Future[Any] = Future()
        self._later.append((future, lambda: fn(*args)))
        super().submit(self._last)
        return future

    def _last(self) -> None:
        future, work = self._later.pop()
        future.set_result(work())


def test_any_executor_will_do(data: Data, alone: list[Any]):
    with Hasty() as executor, cluster_of(executor, 3) as cluster:
        assert measured(data, cluster) == alone


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Any]]]:
    with two_workers(tmp_path_factory.mktemp("dask")) as started:
        yield started


def by_dask(*words: object) -> Any:
    return json.loads(python("-m", "tests.verify.metrics.measured_by_dask", *words))


def test_dask_measures_what_one_process_does(data: Data, alone: list[Any], scheduler: tuple[str, list[Any]]):
    assert by_dask(scheduler[0], *data) == alone


def test_a_lost_worker_of_dask_costs_its_shard_only(data: Data, scheduler: tuple[str, list[Any]], tmp_path: Path):
    usual, unlucky = by_dask(scheduler[0], *data, tmp_path / "mark")
    assert unlucky == usual
    assert sum(process.poll() is not None for process in scheduler[1]) == 1


def test_a_scheduler_that_is_not_there():
    pytest.importorskip("dask")
    words = ["-m", "onnx_passes", examples.path("digits-cnn"), "--scheduler", "tcp://127.0.0.1:9", "cleanup"]
    with pytest.raises(AssertionError, match="the scheduler does not answer"):
        python(*words)
