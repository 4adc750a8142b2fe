"""Data files: what lies in one already is copied by the system or shared, and big ones are never read."""

import errno
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper

import onnx_passes
from onnx_passes.cli.main import main
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.external import MappedTensor
from onnx_passes.graph.load import load
from onnx_passes.graph.save import save

COUNT = 5000


def stored(folder: Path, *weights: np.ndarray, files: bool = False, name: str = "m.onnx") -> Path:
    """A model that adds weights to its input, each in a file of its own or all in one, on pages of their own."""
    initializers, nodes, last, end = [], [], "x", 0
    for number, array in enumerate(weights):
        location, offset = (f"w{number}.bin", 0) if files else ("w.bin", end)
        with (folder / location).open("r+b" if end and not files else "wb") as file:
            file.seek(offset)
            file.write(array.tobytes())
        end += -(-array.nbytes // 4096) * 4096
        initializers.append(external(f"w{number}", TensorProto.FLOAT, array.shape, location, offset, array.nbytes))
        nodes.append(helper.make_node("Add", [last, f"w{number}"], [f"y{number}"]))
        last = f"y{number}"
    return write(folder / name, nodes, initializers, last, weights[0].shape)


def external(name: str, dtype: int, dims, location: str, offset: int, length: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=dtype, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def write(path: Path, nodes, initializers, output: str, shape) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        initializers,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(COUNT).astype(np.float32)


def weights(path: Path) -> dict[str, np.ndarray]:
    return {name: value.const_value.numpy() for name, value in load(path).graph.initializers.items()}


def locations(path: Path) -> dict[str, str]:
    found = onnx.load(path, load_external_data=False).graph.initializer
    return {t.name: next(entry.value for entry in t.external_data if entry.key == "location") for t in found}


def no_copy(*_):
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


@pytest.mark.parametrize("way", ["system", "refused", "missing", "nothing"])
def test_weights_are_copied_whatever_the_system_can_do(way, tmp_path, monkeypatch):
    path = stored(tmp_path, numbers(0), numbers(1))
    model = load(path)
    if way == "refused":
        monkeypatch.setattr(os, "copy_file_range", no_copy)
    elif way == "missing":
        monkeypatch.delattr(os, "copy_file_range")
    elif way == "nothing":
        monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    save(model, tmp_path / "out.onnx")
    monkeypatch.undo()
    found = weights(tmp_path / "out.onnx")
    assert all(np.array_equal(found[f"w{seed}"], numbers(seed)) for seed in range(2))


def test_weights_from_files_and_memory_lie_side_by_side(tmp_path):
    model = load(stored(tmp_path, *map(numbers, range(4))))
    for name in ("w1", "w3"):
        held = model.graph.initializers[name]
        held.const_value = ir.Tensor(held.const_value.numpy() + 1, name=name)
    save(model, tmp_path / "out.onnx")
    found = weights(tmp_path / "out.onnx")
    assert all(np.array_equal(found[f"w{seed}"], numbers(seed) + seed % 2) for seed in range(4))


def test_a_disk_that_is_full_while_the_system_copies_leaves_nothing(tmp_path, monkeypatch):
    model = load(stored(tmp_path, numbers(0)))
    before = sorted(tmp_path.iterdir())

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(ModelError, match="the disk is full"):
        save(model, tmp_path / "out.onnx")
    assert sorted(tmp_path.iterdir()) == before


def test_weights_written_to_while_they_are_copied_are_refused(tmp_path, monkeypatch):
    path = stored(tmp_path, numbers(0))
    model, copy = load(path), os.copy_file_range

    def disturbed(*arguments):
        with (tmp_path / "w.bin").open("r+b") as file:
            file.write(b"new")
        os.utime(tmp_path / "w.bin", (1, 1))
        return copy(*arguments)

    monkeypatch.setattr(os, "copy_file_range", disturbed)
    with pytest.raises(ModelError, match="changed while it was in use"):
        save(model, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def sparse(folder: Path, dtype: int, elements: int, nbytes: int, count: int) -> Path:
    """A model with weights of which only the first and last bytes are on the disk."""
    initializers = []
    with (folder / "w.bin").open("wb") as file:
        for number in range(count):
            for at in (0, nbytes - 64):
                file.seek(number * nbytes + at)
                file.write(bytes([number + 1]) * 64)
            initializers.append(external(f"w{number}", dtype, [elements], "w.bin", number * nbytes, nbytes))
    nodes = [
        node
        for number in range(count)
        for node in (
            helper.make_node("DequantizeLinear", [f"w{number}", "s"], [f"d{number}"]),
            helper.make_node("Gather", [f"d{number}", "i"], [f"g{number}"]),
        )
    ]
    nodes.append(helper.make_node("Sum", ["x", *(f"g{number}" for number in range(count))], ["y"]))
    initializers.append(helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]))
    initializers.append(helper.make_tensor("i", TensorProto.INT64, [], [0]))
    return write(folder / "m.onnx", nodes, initializers, "y", [1])


@pytest.mark.usefixtures("unread")
@pytest.mark.parametrize("dtype", ["INT8", "INT4"])
@pytest.mark.parametrize("passes", ["cleanup", "simplify"])
def test_weights_of_gigabytes_are_not_read_and_holes_stay_holes(dtype, passes, tmp_path):
    nbytes = 2**31 + 2**20
    path = sparse(tmp_path, TensorProto.DataType.Value(dtype), nbytes * (2 if dtype == "INT4" else 1), nbytes, 2)
    result = onnx_passes.apply(path, passes, verify=False)
    report = result.save(tmp_path / "out.onnx")
    assert report.data.stat().st_size >= 2 * nbytes
    assert report.data.stat().st_blocks * 512 < 2**20
    with report.data.open("rb") as file:
        for value in load(tmp_path / "out.onnx").graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, MappedTensor):
                file.seek(tensor.offset + nbytes - 64)
                assert file.read(64) == bytes([int(value.name[1:]) + 1]) * 64


def test_a_model_may_have_more_data_files_than_are_usually_open(tmp_path):
    count = 60
    path = stored(tmp_path, *(numbers(seed) for seed in range(count)), files=True)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + count, limits[1]))
    try:
        save(load(path), tmp_path / "out.onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    found = weights(tmp_path / "out.onnx")
    assert all(np.array_equal(found[f"w{seed}"], numbers(seed)) for seed in range(count))
    assert len(set(locations(tmp_path / "out.onnx").values())) == 1


def test_more_data_files_than_may_be_open_are_refused_with_the_reason(tmp_path, monkeypatch):
    path = stored(tmp_path, numbers(0))
    monkeypatch.setattr(os, "dup", lambda _: (_ for _ in ()).throw(OSError(errno.EMFILE, "Too many open files")))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(ModelError, match="ulimit -n"):
        load(path)


def test_shared_data_stay_where_they_are(tmp_path):
    path = stored(tmp_path, numbers(0), numbers(1))
    model = load(path)
    model.graph.initializers["w1"].const_value = ir.Tensor(numbers(2), name="w1")
    report = save(model, tmp_path / "out.onnx", external="shared")
    assert locations(tmp_path / "out.onnx") == {"w0": "w.bin", "w1": "out.onnx.data"}
    assert report.notes == ("weights stay in 'w.bin'",)
    assert report.data.stat().st_size == numbers(2).nbytes
    found = weights(tmp_path / "out.onnx")
    assert np.array_equal(found["w0"], numbers(0))
    assert np.array_equal(found["w1"], numbers(2))
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    (sums,) = session.run(None, {"x": np.zeros(COUNT, np.float32)})
    assert np.array_equal(sums, numbers(0) + numbers(2))


def test_nothing_is_written_where_all_data_are_shared(tmp_path):
    folder = tmp_path / "below"
    folder.mkdir()
    save(load(stored(folder, numbers(0))), tmp_path / "out.onnx", external="shared")
    assert locations(tmp_path / "out.onnx") == {"w0": "below/w.bin"}
    assert not list(tmp_path.glob("*.data"))
    assert np.array_equal(weights(tmp_path / "out.onnx")["w0"], numbers(0))


def test_data_outside_the_folder_of_the_model_cannot_be_shared(tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    model = load(stored(tmp_path, numbers(0)))
    with pytest.raises(ModelError, match="outside the folder of the model") as refusal:
        save(model, folder / "out.onnx", external="shared")
    assert "folder of its data file" in str(refusal.value)
    assert not list(folder.iterdir())


def test_a_model_can_be_saved_over_itself_and_keep_its_data(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(stored(tmp_path, numbers(0), numbers(1))), path)
    model = load(path)
    model.graph.initializers["w1"].const_value = ir.Tensor(numbers(2), name="w1")
    save(model, path, external="shared")
    save(load(path), path, external="shared")
    found = weights(path)
    assert np.array_equal(found["w0"], numbers(0))
    assert np.array_equal(found["w1"], numbers(2))


def test_shared_data_stay_when_the_other_model_is_saved_anew(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(stored(tmp_path, numbers(0))), path)
    save(load(path), tmp_path / "out.onnx", external="shared")
    save(load(path), path)
    assert locations(path) != locations(tmp_path / "out.onnx")
    assert np.array_equal(weights(tmp_path / "out.onnx")["w0"], numbers(0))


def test_data_that_were_written_to_are_not_shared(tmp_path):
    model = load(stored(tmp_path, numbers(0)))
    (tmp_path / "w.bin").write_bytes(bytes(numbers(0).nbytes))
    os.utime(tmp_path / "w.bin", (1, 1))
    with pytest.raises(ModelError, match="changed while it was in use"):
        save(model, tmp_path / "out.onnx", external="shared")


def test_the_command_line_shares_data_and_refuses_before_the_work(tmp_path, capsys):
    path = stored(tmp_path, numbers(0), numbers(0) + 1)
    assert main(["-o", str(tmp_path / "out.onnx"), "--share-data", str(path), "cleanup"]) == 0
    assert "weights stay in 'w.bin'" in capsys.readouterr().err
    assert set(locations(tmp_path / "out.onnx").values()) == {"w.bin"}
    (tmp_path / "other").mkdir()
    assert main(["-o", str(tmp_path / "other" / "out.onnx"), "--share-data", str(path), "cleanup"]) == 2
    assert "outside the folder of the model" in capsys.readouterr().err
    assert main(["--share-data", str(path), "cleanup"]) == 2
    assert "--share-data needs --output" in capsys.readouterr().err
