"""Data by their name: patterns, folders, parts of files, tables and stores, here and behind URLs, read by rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.samples.dataset import Dataset
from onnx_passes.verify.samples.numpy_files import LazyArray, read_numpy, write_numpy
from onnx_passes.verify.samples.reference import read_inputs
from onnx_passes.verify.samples.sources import expand_sources, open_rows

ROWS = np.arange(10 * 6, dtype=np.float32).reshape(10, 2, 3)
LABELS = np.arange(10)


def model(shape: str = "N, 2, 3") -> ir.Model:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 20]> g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu (x) }}'
    )


def _npy(folder: Path) -> str:
    np.save(folder / "x.npy", ROWS)
    return str(folder / "x.npy")


def _npz(folder: Path) -> str:
    np.savez(folder / "all.npz", x=ROWS, label=LABELS)
    return f"{folder / 'all.npz'}#x"


def _zarr(folder: Path) -> str:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(folder / "all.zarr"), mode="w")
    group.create_array("x", data=ROWS, chunks=(4, 2, 3))
    group.create_array("label", data=LABELS)
    return f"{folder / 'all.zarr'}#x"


def _table(folder: Path, name: str) -> str:
    pa = pytest.importorskip("pyarrow")
    flat = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 6)
    table = pa.table({"x": flat, "label": LABELS})
    if name.endswith(".parquet"):
        import pyarrow.parquet as pq

        pq.write_table(table, folder / name, row_group_size=4)
    else:
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return f"{folder / name}#x"


KINDS: dict[str, Callable[[Path], str]] = {
    "npy": _npy,
    "npz": _npz,
    "zarr": _zarr,
    "parquet": lambda folder: _table(folder, "all.parquet"),
    "arrow": lambda folder: _table(folder, "all.arrow"),
}


@pytest.fixture(params=KINDS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return KINDS[request.param](tmp_path)


@pytest.fixture(params=["path", "url"])
def given(request: pytest.FixtureRequest, source: str) -> str:
    if request.param == "url":
        pytest.importorskip("fsspec")
        return f"file://{source}"
    return source


def test_rows_are_cut_into_batches(given: str):
    data = Dataset.read(model(), [given], batch=4)
    assert len(data) == 3
    assert data.count == 10
    found = [batch.inputs["x"] for batch in data]
    assert [len(rows) for rows in found] == [4, 4, 2]
    assert np.array_equal(np.concatenate(found), ROWS)
    assert found[0].dtype == np.float32


def test_some_batches_alone(given: str):
    data = Dataset.read(model(), [given], batch=3)
    found = list(data.batches(1, 3))
    assert [number for number, _ in found] == [1, 2]
    assert np.array_equal(np.concatenate([batch.inputs["x"] for _, batch in found]), ROWS[3:9])
    assert not list(data.batches(4, 9))


def test_labels_beside_the_inputs(given: str):
    if given.endswith(".npy"):
        pytest.skip("a file of one array")
    data = Dataset.read(model(), [given], [given.replace("#x", "#label")], batch=4)
    expected = [batch.expected for batch in data]
    assert np.array_equal(np.concatenate([found["y"] for found in expected if found]), LABELS)


def test_verification_reads_them_as_well(given: str):
    assert np.array_equal(read_inputs(model(), [given])[0]["x"], ROWS)


def test_only_rows_that_are_used_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[int, int]] = []

    def read(start: int, stop: int) -> np.ndarray:
        asked.append((start, stop))
        return ROWS[start:stop]

    lazy = LazyArray(ROWS.shape, ROWS.dtype, read)
    monkeypatch.setattr("onnx_passes.verify.samples.sources._at_once", lambda *_: lazy)
    data = Dataset.read(model(), [_npy(tmp_path)], batch=2)
    assert not asked
    list(data.batches(3, 5))
    assert asked == [(6, 8), (8, 10)]


def test_files_of_a_folder_follow_each_other(tmp_path: Path):
    for number in (2, 0, 1):
        np.save(tmp_path / f"part-{number}.npy", ROWS[3 * number : 3 * number + 3])
    (tmp_path / "notes.txt").write_text("not data")
    for given in (str(tmp_path), str(tmp_path / "part-*.npy"), str(tmp_path / "part-?.npy")):
        data = Dataset.read(model(), [given], batch=2)
        assert [len(batch.inputs["x"]) for batch in data] == [2, 1, 2, 1, 2, 1]
        assert np.array_equal(np.concatenate([batch.inputs["x"] for batch in data]), ROWS[:9])


def test_a_folder_behind_a_url(tmp_path: Path):
    pytest.importorskip("fsspec")
    for number in range(2):
        np.save(tmp_path / f"part-{number}.npy", ROWS[5 * number : 5 * number + 5])
    for given in (f"file://{tmp_path}", f"file://{tmp_path}/part-*.npy"):
        found = expand_sources([given])
        assert [one.rsplit("/", 1)[-1] for one in found] == ["part-0.npy", "part-1.npy"]
        assert np.array_equal(np.concatenate([b.inputs["x"] for b in Dataset.read(model(), [given])]), ROWS)


def test_types_are_converted_batch_by_batch(tmp_path: Path):
    np.save(tmp_path / "x.npy", ROWS.astype(np.uint8))
    found = [batch.inputs["x"] for batch in Dataset.read(model(), [tmp_path / "x.npy"], batch=4)]
    assert np.array_equal(np.concatenate(found), ROWS)
    assert found[0].dtype == np.float32


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nothing-*.npy", "no file is of this pattern"),
        ("empty", "there are no data in this folder"),
        ("all.npz#pixels", "there is no 'pixels' in it; it has x, label"),
        ("x.npy#x", "there are no arrays by name in it; leave out '#x'"),
        ("broken.parquet", "this is not a readable table"),
        ("words.parquet", "the column 'x' holds string; give numbers"),
        ("gone.zarr", "there is no such file"),
        ("ftp2://host/x.npy", "this URL cannot be read"),
        ("memory://nowhere/x.npy", "there is no such file"),
    ],
)
def test_what_cannot_be_read_says_why(given: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    _npy(tmp_path)
    _npz(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    pq.write_table(pa.table({"x": ["a", "b"]}), tmp_path / "words.parquet")
    with pytest.raises(UsageError, match="(?i)" + why.replace("(", "\\(")):
        list(Dataset.read(model(), [given]))


def test_a_shape_that_does_not_fit_names_the_file(tmp_path: Path):
    np.save(tmp_path / "x.npy", ROWS)
    with pytest.raises(UsageError, match=r"x\.npy: input 'x' has shape \[10,2,3\] but the model expects \[N,5,3\]"):
        Dataset.read(model("N, 5, 3"), [tmp_path / "x.npy"])


def test_anything_else_is_left_alone():
    assert open_rows(ROWS) is ROWS
    assert expand_sources([ROWS, {"x": ROWS}])[0] is ROWS


# Arrays of Zarr that are not whole, or too large


@pytest.fixture
def array(tmp_path: Path) -> Path:
    zarr = pytest.importorskip("zarr")
    for name, kind in (("new", 3), ("old", 2)):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), data=ROWS + 1, chunks=(4, 2, 2), zarr_format=kind)
    zarr.create_array(str(tmp_path / "sharded.zarr"), data=ROWS + 1, chunks=(2, 2, 3), shards=(4, 2, 3))
    return tmp_path


@pytest.mark.parametrize(("name", "chunk"), [("new", "c/1/0/1"), ("old", "1.0.1"), ("sharded", "c/1/0/0")])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_missing_chunk_is_no_zeros(array: Path, name: str, chunk: str, scheme: str):
    given = f"{scheme}{array / name}.zarr"
    whole = list(Dataset.read(model(), [given], batch=4))
    assert np.array_equal(np.concatenate([batch.inputs["x"] for batch in whole]), ROWS + 1)
    (array / f"{name}.zarr" / chunk).unlink()
    data = Dataset.read(model(), [given], batch=4)
    assert len(list(data.batches(0, 1))) == 1, "rows of other chunks are there"
    with pytest.raises(UsageError, match=rf"{name}\.zarr: the chunk '{chunk}' of the array is missing: .* read 0\.0"):
        list(data)
    with pytest.raises(UsageError, match=f"the chunk '{chunk}' of the array is missing"):
        read_inputs(model(), [given])


def test_the_array_of_a_group_is_named(tmp_path: Path):
    given = _zarr(tmp_path)
    (tmp_path / "all.zarr" / "x" / "c" / "2" / "0" / "0").unlink()
    with pytest.raises(UsageError, match=r"all\.zarr#x: the chunk 'c/2/0/0'"):
        list(Dataset.read(model(), [given]))


def test_chunks_of_fill_values_are_there_if_they_were_written(tmp_path: Path):
    zarr = pytest.importorskip("zarr")
    given = str(tmp_path / "dark.zarr")
    zarr.create_array(given, data=ROWS * 0, chunks=(4, 2, 3), config={"write_empty_chunks": True})
    assert not any(batch.inputs["x"].any() for batch in Dataset.read(model(), [given]))


def test_a_damaged_chunk_is_a_mistake_of_the_user(array: Path):
    (array / "new.zarr" / "c" / "0" / "0" / "0").write_bytes(b"not a chunk")
    with pytest.raises(UsageError, match=r"new\.zarr: rows 0 to 10 cannot be read"):
        list(Dataset.read(model(), [array / "new.zarr"]))


def test_what_is_too_large_is_named(tmp_path: Path):
    zarr = pytest.importorskip("zarr")
    for name, chunk in (("rows", 1000), ("chunk", 10**12)):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), shape=(10**12, 2, 3), chunks=(chunk, 2, 3), dtype="f4")
    large = r"rows\.zarr: 1000000000000 rows of shape \[2, 3\] take 2\.24e\+04 GiB at once, more than the 4 GiB"
    with pytest.raises(UsageError, match=large):
        read_inputs(model(), [tmp_path / "rows.zarr"])
    with pytest.raises(UsageError, match=r"chunk\.zarr: a chunk of shape \[1000000000000, 2, 3\] takes"):
        next(iter(Dataset.read(model(), [tmp_path / "chunk.zarr"])))


@pytest.mark.parametrize(("rows", "refused"), [(2**20, True), (2**8, False)])
def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_refused(
    rows: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnx_passes.verify.samples.numpy_files._SUSPICIOUS_SIZE", 2**20)
    path = tmp_path / "x.npz"
    write_numpy(path, {"x": np.zeros((rows, 2), np.float32)}, packed=True)
    if refused:
        with pytest.raises(UsageError, match="look like an attack on the memory"):
            read_numpy(path)
    else:
        assert read_numpy(path)["x"].shape == (rows, 2)
    write_numpy(path, {"x": np.zeros((rows, 2), np.float32)})
    assert read_numpy(path)["x"].shape == (rows, 2)
