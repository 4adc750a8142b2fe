"""Data that change behind their name are other data, wherever they lie."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.check.measuring import Measuring
from onnx_passes.core.base import PassResult, Transformation
from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.execute import Executor, Profile
from onnx_passes.verify.samples.dataset import DatasetAt
from onnx_passes.verify.samples.sources import open_rows
from onnx_passes.verify.samples.tables import Stamp, stamp_of
from onnx_passes.workers.cluster import cluster_of
from onnx_passes.workers.origin import Machine
from onnx_passes.workers.store import Store
from tests.verify.samples.web import Site, register_web, serving

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[N, 3] x) => (float[N, 3] y) { y = Relu (x) }
"""


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.fixture(params=[False, True], ids=["no tags", "tags"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    register_web()
    with serving(has_tags=request.param) as found:
        yield found


@pytest.fixture(params=["web", "http"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


def scores(winner: int) -> np.ndarray:
    """Return scores of 200 samples, all of one class."""
    return np.eye(3, dtype=np.float32)[np.full(200, winner)]


def accuracy(url: str, store: Path, executor: Executor | None = None) -> float:
    """Measure how often a model chooses the class of the original, as workers do who keep what they computed."""
    with ThreadPoolExecutor(1) as workers, cluster_of(workers, 2, store=str(store)) as cluster:
        measuring = Measuring({"accuracy": None}, dataset=[url], cluster=cluster, executor=executor)
        record = apply(ir.from_onnx_text(MODEL), "cleanup", metrics=measuring, verify=False).record
    return record.metrics["accuracy"]


def test_results_of_other_versions_and_other_sessions_are_not_taken_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", scores(0))

    def kept(executor: Executor | None = None) -> int:
        assert accuracy(str(tmp_path / "x.npy"), tmp_path / "store", executor) == 1
        return len(list((tmp_path / "store").glob("original-*")))

    assert (kept(), kept()) == (4, 4)
    assert kept(Executor(Profile(session_options={"session.set_denormal_as_zero": "1"}))) == 8
    later = Machine("here", (("onnxruntime", "99"),))
    monkeypatch.setattr("onnx_passes.verify.metrics.shards.own_origin", lambda: later)
    assert (kept(), kept()) == (12, 12)


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_data_that_changed_are_not_taken_from_the_store(site: Site, scheme: str, tmp_path: Path, kind: str) -> None:
    made = {"npy": lambda winner: npy(scores(winner)), "npz": lambda winner: npz(x=scores(winner))}[kind]
    url = f"{scheme}://{site.address}/x.{kind}"
    for winner in (0, 1, 2):
        site.files[f"/x.{kind}"] = made(winner)
        assert accuracy(url, tmp_path) == 1
    assert len(list(tmp_path.glob("original-*"))) == 3 * 4
    assert accuracy(url, tmp_path) == 1
    assert len(list(tmp_path.glob("original-*"))) == 3 * 4


def test_a_server_without_ranges_sends_all(site: Site, scheme: str) -> None:
    site.has_ranges = False
    rows = np.arange(30, dtype=np.float32).reshape(10, 3)
    site.files["/x.npy"] = npy(rows)
    opened = open_rows(f"{scheme}://{site.address}/x.npy").found
    assert np.array_equal(opened[4:7], rows[4:7])
    site.files["/x.npy"] = npy(rows)[:-60]
    with pytest.raises(UsageError, match=r"x\.npy: it ends before row 10 of 10"):
        opened[4:10]


def test_a_tag_is_enough_and_else_the_content_is_read(site: Site, scheme: str) -> None:
    site.files["/x.npy"] = npy(scores(0))
    url = f"{scheme}://{site.address}/x.npy"
    first = stamp_of(url)
    assert ("GET /x.npy" in site.asked) == (not site.has_tags)
    assert stamp_of(url) == first
    site.files["/x.npy"] = npy(scores(1))
    assert stamp_of(url) != first
    site.files["/x.npy"] = npy(scores(0))
    assert stamp_of(url) == first


def test_a_weak_tag_does_not_tell_contents_apart(site: Site, scheme: str) -> None:
    site.is_weak = True
    site.files["/x.npy"] = npy(scores(0))
    url = f"{scheme}://{site.address}/x.npy"
    first = stamp_of(url)
    assert first.is_known
    assert stamp_of(url) == first
    site.files["/x.npy"] = npy(scores(1))
    assert stamp_of(url) != first


def test_what_is_not_there_has_a_stamp_of_its_own_each_time(site: Site, scheme: str) -> None:
    url = f"{scheme}://{site.address}/absent.npy"
    assert not stamp_of(url).is_known
    assert stamp_of(url) != stamp_of(url)


def test_an_archive_that_changed_is_read_anew(site: Site, tmp_path: Path) -> None:
    url, path = f"web://{site.address}/x.npz", tmp_path / "x.npz"
    for winner in (0, 1):
        site.files["/x.npz"] = npz(x=scores(winner))
        path.write_bytes(site.files["/x.npz"])
        for source in (url, str(path)):
            opened = open_rows(f"{source}#x").found
            assert np.array_equal(opened[0:5], scores(winner)[:5])


def test_a_table_that_changed_is_read_anew(tmp_path: Path) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for number in (1, 2):
        pq.write_table(pa.table({"x": np.full(5, number, np.float32)}), tmp_path / "x.parquet")
        assert open_rows(f"{tmp_path / 'x.parquet'}#x").found[0:5].tolist() == [number] * 5


def test_files_and_folders_of_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "x.zarr"
    (folder / "c").mkdir(parents=True)
    for name in ("zarr.json", "c/0"):
        (folder / name).write_text("content")
    before = stamp_of(str(folder)), stamp_of(str(folder / "zarr.json"))
    assert before == (stamp_of(f"{folder}#x"), stamp_of(f"file://{folder / 'zarr.json'}"))
    os.utime(folder / "c" / "0", (1, 1))
    os.utime(folder / "zarr.json", ns=(1, 1_500_000_000))
    after = stamp_of(str(folder)), stamp_of(str(folder / "zarr.json"))
    assert all(old.content != new.content for old, new in zip(before, after, strict=True))
    os.utime(folder / "zarr.json", ns=(1, 1_500_000_001))
    assert stamp_of(str(folder / "zarr.json")) != after[1], "of one second, but not of one nanosecond"
    assert stamp_of(str(folder / "zarr.json")).is_of(after[1]), "as a machine sees it whose file system has no more"


def test_a_worker_that_finds_other_data_refuses_them(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", scores(0))
    at = DatasetAt.of(ir.from_onnx_text(MODEL), [tmp_path / "x.npy"], (), None, Store(str(tmp_path)))
    assert len(at.open()) == 4
    np.save(tmp_path / "x.npy", scores(1)[:7])
    other = DatasetAt(at.interface, at.inputs, at.expect, 32, at.stamps)
    with pytest.raises(UsageError, match=r"x\.npy: the data that .* finds here are not those that the run began with"):
        other.open()


class ChangesTheData(Transformation):
    """Write other data while a run goes on."""

    path: str = ""

    def call(self, model: ir.Model) -> PassResult:
        np.save(self.path, scores(1))
        return PassResult(model, modified=False)


def test_data_that_change_during_a_run_end_it(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, scores(0))
    measuring = Measuring({"accuracy": None}, dataset=[path])
    assert apply(ir.from_onnx_text(MODEL), "cleanup", metrics=measuring).record.metrics
    with pytest.raises(UsageError, match=r"x\.npy: the data changed while the model was measured on them"):
        apply(ir.from_onnx_text(MODEL), ChangesTheData(path=str(path)), metrics=measuring)


def test_nothing_is_known_of_what_cannot_be_told_apart() -> None:
    unknown = Stamp("", "1")
    assert unknown.is_of(Stamp("a"))
    assert Stamp("a").is_of(unknown)
    assert not Stamp("a").is_of(Stamp("b"))
