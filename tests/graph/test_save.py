"""Saving: every target and format, and whatever goes wrong, the old files stay."""

import errno
import io
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.core.errors import ExitCode, ModelError
from onnx_passes.graph import annotations, atomic
from onnx_passes.graph import save as saving
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.load import load
from onnx_passes.graph.save import SaveReport, save

TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,64] x) => (float[1,64] y) <float[2] k = {1.0, 2.0}> { h = MatMul(x, w) y = Relu(h) }
"""


@pytest.fixture
def model() -> ir.Model:
    array = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    return with_weight(ir.Tensor(array, name="w"))


def with_weight(tensor: ir.TensorProtocol) -> ir.Model:
    proto = onnx.parser.parse_model(TEXT.replace("(x, w)", "(x, x)"))
    proto.graph.node[0].input[1] = "w"
    proto.graph.input.add(name="w", type=proto.graph.input[0].type)
    built = ir.from_proto(proto)
    value = built.graph.inputs.pop()
    value.type, value.shape, value.const_value = ir.TensorType(tensor.dtype), tensor.shape, tensor
    built.graph.register_initializer(value)
    return built


def names(folder) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def refusal(model, target, **options) -> str:
    with pytest.raises(ModelError) as info:
        save(model, target, **options)
    assert info.value.exit_code is ExitCode.USAGE
    return str(info.value)


class Standard:
    def __init__(self) -> None:
        self.buffer = io.BytesIO()


def test_the_file_is_what_onnx_itself_would_have_written(model, tmp_path):
    path = tmp_path / "m.onnx"
    report = save(model, path)
    assert report == SaveReport(path, "binary", path.stat().st_size)
    assert onnx.load(path) == ir.to_proto(model)
    onnx.checker.check_model(path, full_check=True)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def test_nothing_of_the_model_changes(model, tmp_path):
    tensors = [value.const_value for value in model.graph.initializers.values()]
    before = full_hash(model)
    for name, external in (("a.onnx", None), ("b.onnx", True), ("c.onnxtxt", None)):
        save(model, tmp_path / name, external=external)
    after = [value.const_value for value in model.graph.initializers.values()]
    assert all(a is b for a, b in zip(tensors, after, strict=True))
    assert full_hash(model) == before


@pytest.mark.parametrize("name", ["m.onnx", "m", "m.pb", "m.ONNX", "m.onnxtxt", "m.txt", "m.json", "m.textproto"])
def test_the_suffix_gives_the_format(model, name, tmp_path):
    report = save(model, tmp_path / name)
    binary = (tmp_path / name).read_bytes().startswith(b"\x08")
    assert binary is (report.format == "binary") is (name in ("m.onnx", "m", "m.pb", "m.ONNX"))
    assert full_hash(load(tmp_path / name)) == full_hash(model)


def test_the_format_can_be_told(model, tmp_path):
    save(model, tmp_path / "m.onnx", format="text")
    assert (tmp_path / "m.onnx").read_text().startswith("<\n   ir_version: 10")
    assert refusal(model, tmp_path / "m.onnx", format="tekst") == "there is no format 'tekst'; did you mean 'text'?"


def test_standard_output_gets_text_unless_told_otherwise(model, monkeypatch):
    for format_, start in ((None, b"<\n   ir_version"), ("binary", b"\x08\x0a")):
        standard = Standard()
        monkeypatch.setattr(sys, "stdout", standard)
        report = save(model, "-", format=format_)
        monkeypatch.undo()
        assert standard.buffer.getvalue().startswith(start)
        assert report.nbytes == len(standard.buffer.getvalue())
        assert full_hash(load(standard.buffer.getvalue())) == full_hash(model)


def test_open_files_are_written_to(model, tmp_path):
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        save(model, file)
    assert full_hash(load(path)) == full_hash(model)
    with path.open("w") as file:
        save(model, file)
    assert path.read_text().startswith("<")
    assert full_hash(load(path)) == full_hash(model)
    with path.open("w") as file:
        assert "open it as binary" in refusal(model, file, format="binary")


def test_a_pipe_is_written_to(model):
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        save(model, file)
    with os.fdopen(read, "rb") as file:
        assert full_hash(load(file)) == full_hash(model)


def test_streams_take_no_data_file(model, tmp_path):
    assert "a data file needs a model file beside it" in refusal(model, io.BytesIO(), external=True)
    assert "holds its weights itself" in refusal(model, tmp_path / "m.onnxtxt", external=True)


def test_external_weights_are_written_into_a_stream(model, tmp_path):
    save(model, tmp_path / "m.onnx", external=True)
    buffer = io.BytesIO()
    save(load(tmp_path / "m.onnx"), buffer)
    assert full_hash(load(buffer.getvalue())) == full_hash(model)


def test_devices_are_written_to_and_not_replaced(model):
    assert save(model, "/dev/null").nbytes > 64 * 64 * 4
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert refusal(model, "/dev/full") == "/dev/full: the disk is full; make room or choose another place"


def test_missing_folder_and_folder_are_refused(model, tmp_path):
    assert refusal(model, tmp_path / "no" / "m.onnx").endswith("the folder does not exist; create it first")
    assert refusal(model, tmp_path).endswith("this is a folder; name a file in it")
    (tmp_path / "file").write_bytes(b"")
    assert "the folder does not exist" in refusal(model, tmp_path / "file" / "m.onnx")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("external", [False, True])
def test_denied_permission_is_refused(model, external, tmp_path, monkeypatch):
    def deny(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", deny)
    assert "permission to write here is denied" in refusal(model, tmp_path / "m.onnx", external=external)


@pytest.mark.parametrize("external", [False, True])
def test_when_the_disk_is_full_the_old_files_stay(model, external, tmp_path):
    path = tmp_path / "m.onnx"
    save(model, path, external=external)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        message = refusal(model, path, external=external)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "the file would be larger than allowed" in message
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("reason", [KeyboardInterrupt, MemoryError])
def test_an_interruption_leaves_the_old_files(model, reason, external, tmp_path):
    path = tmp_path / "m.onnx"
    save(model, path, external=external)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}

    def interrupt() -> ir.TensorProtocol:
        raise reason

    lazy = ir.LazyTensor(interrupt, ir.DataType.FLOAT, ir.Shape([64, 64]), name="w")
    with pytest.raises(reason):
        save(with_weight(lazy), path, external=external)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


@pytest.mark.parametrize("existing", [False, True])
def test_if_the_model_cannot_be_put_in_place_its_data_are_taken_back(model, existing, tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    if existing:
        save(model, path, external=True)
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}
    replace = type(path).replace

    def fail_for_the_model(self, target):
        if target.name == "m.onnx":
            raise OSError(errno.EIO, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(type(path), "replace", fail_for_the_model)
    other = with_weight(ir.Tensor(np.zeros((64, 64), np.float32), name="w"))
    assert "writing failed (Input/output error)" in refusal(other, path, external=True)
    monkeypatch.undo()
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_saving_leaves_nothing_else_behind(model, tmp_path):
    for _ in range(3):
        report = save(model, tmp_path / "m.onnx", external=True)
        assert names(tmp_path) == sorted(["m.onnx", report.data.name])
    assert report.data.name == "m.onnx.data"
    save(model, tmp_path / "m.onnx", external=False)
    assert names(tmp_path) == ["m.onnx"]


def test_permissions_and_links_are_kept(model, tmp_path):
    real = tmp_path / "real.onnx"
    real.write_bytes(b"old")
    real.chmod(0o604)
    link = tmp_path / "link.onnx"
    link.symlink_to("real.onnx")
    save(model, link)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    assert full_hash(load(real)) == full_hash(model)


def test_new_files_follow_the_umask(model, tmp_path):
    before = os.umask(0o027)
    try:
        save(model, tmp_path / "m.onnx")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m.onnx").stat().st_mode) == 0o640


def test_a_long_name_can_be_saved(model, tmp_path):
    path = tmp_path / ("m" * 240 + ".onnx")
    save(model, path, external=True)
    assert full_hash(load(path)) == full_hash(model)


def test_saving_over_the_loaded_file_keeps_the_model(model, tmp_path):
    path = tmp_path / "m.onnx"
    save(model, path)
    loaded = load(path)
    for _ in range(2):
        save(loaded, path)
        assert full_hash(loaded) == full_hash(model) == full_hash(load(path))


def test_an_annotated_output_that_is_an_initializer_is_annotated_once(tmp_path):
    model = load(
        b'<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, float[2] w)'
        b" <float[2] w = {1.0, 2.0}> { y = Add(x, w) }"
    )
    annotations.set(model.graph.initializers["w"], {"finn_datatype": "INT4"})
    save(model, tmp_path / "m.onnx")
    assert len(onnx.load(tmp_path / "m.onnx").graph.quantization_annotation) == 1


def test_an_initializer_without_data_is_refused_not_dropped(model, tmp_path):
    model.graph.initializers["w"].const_value = None
    assert "initializer 'w' has no data" in refusal(model, tmp_path / "m.onnx")
    assert names(tmp_path) == []


def test_text_tensors_are_saved_inline(tmp_path):
    model = load(
        b'<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y, string[2] s)'
        b' <string[2] w = {"a", "b"}> { y = Neg(x) s = Identity(w) }'
    )
    words = [b"word" * 2000, b""]
    model.graph.initializers["w"].const_value = ir.StringTensor(words, shape=ir.Shape([2]), name="w")
    for external in (False, True):
        assert save(model, tmp_path / "m.onnx", external=external).data is None
        assert load(tmp_path / "m.onnx").graph.initializers["w"].const_value.string_data() == words


def test_beyond_the_limit_of_protobuf_weights_go_to_a_data_file(model, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "PROTOBUF_LIMIT", 16000)
    path = tmp_path / "m.onnx"
    assert save(model, path).data == tmp_path / "m.onnx.data"
    assert full_hash(load(path)) == full_hash(model)
    assert "more than the 16000 of a single file" in refusal(model, path, external=False)
    assert "save it to a path" in refusal(model, io.BytesIO())


def test_a_device_is_told_from_a_file(tmp_path):
    assert atomic.is_special(Path("/dev/null"))
    assert not atomic.is_special(tmp_path)
    assert not atomic.is_special(tmp_path / "missing")


@pytest.mark.skipif("ONNX_PASSES_LARGE_TESTS" not in os.environ, reason="needs 5 GB of disk and memory")
def test_a_model_of_two_gigabytes(tmp_path):
    count = 2**29 + 2**24
    array = np.arange(count, dtype=np.float32)
    lazy = ir.LazyTensor(lambda: ir.Tensor(array), ir.DataType.FLOAT, ir.Shape([count]), name="w")
    big = with_weight(lazy)
    path = tmp_path / "m.onnx"
    report = save(big, path)
    assert report.data is not None
    assert report.nbytes > 2**31
    tensor = load(path).graph.initializers["w"].const_value
    assert np.array_equal(tensor.numpy()[-5:], array[-5:])
    assert tensor.nbytes == array.nbytes
    save(load(path), path)
    assert np.array_equal(load(path).graph.initializers["w"].const_value.numpy()[::999], array[::999])
    assert len(names(tmp_path)) == 2


def kill_while_saving(path, at: str) -> None:
    """Save other weights over a model in a process that ends, as by a kill, when it comes to a step."""
    text = f"""
import os, sys
from pathlib import Path
import numpy as np
from onnx_passes.graph import save as saving
from onnx_passes.graph.load import load
model = load({str(path)!r})
import onnx_ir as ir
model.graph.initializers["w"].const_value = ir.Tensor(np.zeros((64, 64), np.float32), name="w")
replace = Path.replace
def dying(self, target):
    if {at!r} == "before":
        os._exit(9)
    replace(self, target)
    os._exit(9)
Path.replace = dying
saving.save(model, {str(path)!r}, external=True)
"""
    assert subprocess.run([sys.executable, "-c", text], check=False, timeout=60).returncode == 9


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_kill_leaves_a_model_with_its_own_weights(at, tmp_path):
    path = tmp_path / "m.onnx"
    ones = with_weight(ir.Tensor(np.ones((64, 64), np.float32), name="w"))
    save(ones, path, external=True)
    kill_while_saving(path, at)
    found = np.unique(load(path).graph.initializers["w"].const_value.numpy())
    assert found.tolist() == ([1.0] if at == "before" else [0.0])
    for leftover in tmp_path.glob("m.onnx.*.data"):
        os.utime(leftover, (0, 0))
    kept = save(ones, path, external=True).data
    assert [entry for entry in tmp_path.glob("m.onnx.*.data") if entry != kept] == []


def test_weights_that_another_model_names_stay(model, tmp_path):
    first = save(model, tmp_path / "m.onnx", external=True).data
    (tmp_path / "copy.onnx").write_bytes((tmp_path / "m.onnx").read_bytes())
    save(model, tmp_path / "m.onnx", external=True)
    assert first.exists()
    assert full_hash(load(tmp_path / "copy.onnx")) == full_hash(model)


def test_a_file_that_is_no_data_of_the_model_stays(model, tmp_path):
    for name in ("m.onnx.precious.data", "other.onnx.data", "m.onnx.data"):
        (tmp_path / name).write_bytes(b"precious")
        os.utime(tmp_path / name, (0, 0))
    save(model, tmp_path / "m.onnx", external=True)
    save(model, tmp_path / "m.onnx", external=True)
    for name in ("m.onnx.precious.data", "other.onnx.data", "m.onnx.data"):
        assert (tmp_path / name).read_bytes() == b"precious"
    assert full_hash(load(tmp_path / "m.onnx")) == full_hash(model)
