from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.workers import cluster as clusters
from onnx_passes.workers import completed as completing
from onnx_passes.workers.cluster import Cluster, cluster_of, require_seen
from onnx_passes.workers.completed import answered, completed
from onnx_passes.workers.origin import Machine, own_origin
from tests.workers.jobs import fail_on_three, square


def test_workers_must_see_what_they_read_and_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "m.onnx"
    with ThreadPoolExecutor(1) as executor, cluster_of(executor, 1) as cluster:
        with pytest.raises(UsageError, match=r"m\.onnx: workers have no access to this path"):
            require_seen(cluster, file, tmp_path)
        file.touch()
        require_seen(cluster, file, tmp_path)
        monkeypatch.setattr(clusters, "_missing", lambda paths: [path for path in paths if ".seen-" in path])
        with pytest.raises(UsageError, match=f"^{tmp_path}: workers have no access to this path"):
            require_seen(cluster, file, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


class Mixed(ThreadPoolExecutor):
    """Workers of which all that come after some items run other versions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, other: Machine, first: int) -> None:
        super().__init__(1)
        self._monkeypatch, self._other, self._left = monkeypatch, other, first

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self._left:
            self._left -= 1
            return super().submit(fn, *args)
        future: Future[Any] = Future()
        with self._monkeypatch.context() as changed:
            changed.setattr(completing, "own_origin", lambda: self._other)
            future.set_result(fn(*args))
        return future


OTHERS = Machine("node7", (("onnx-passes", "0.4.0"), ("sources", "another checkout")))


def test_a_worker_of_other_versions_is_refused_whenever_it_comes(monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []

    def work(cluster: Cluster) -> None:
        done.extend(number for number, _ in completed(cluster.workers, square, range(5), ahead=1))

    refused = r"worker on node7 has other versions: .*onnx-passes 0\.4\.0 and not .*, sources another checkout and not"
    with Mixed(monkeypatch, OTHERS, first=6) as executor, cluster_of(executor, 2) as cluster:
        work(cluster)
        assert done == [0, 1, 2, 3, 4]
        with pytest.raises(UsageError, match=refused):
            work(cluster)
    with Mixed(monkeypatch, OTHERS, first=0) as executor, pytest.raises(UsageError, match=refused):
        cluster_of(executor, 2).__enter__()


def test_a_worker_of_other_versions_computes_nothing():
    assert answered(square, 3, own_origin().versions).result == (9,)
    assert answered(fail_on_three, 3, OTHERS.versions).result == ()
