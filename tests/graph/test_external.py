"""Weights in data files: mapped and checked on loading, kept on saving, safe from being overwritten."""

import os

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.external import EmbeddedTensor, MappedTensor, file_of
from onnx_passes.graph.hashing.fingerprint import full_hash
from onnx_passes.graph.load import load, origin
from onnx_passes.graph.save import save

X = np.ones((1, 64), np.float32)


def weight(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float32)


def proto(**weights: np.ndarray) -> onnx.ModelProto:
    """Multiply the input with each weight in turn."""
    names = list(weights)
    sources = ["x", *(f"h_{name}" for name in names[:-1])]
    results = [*(f"h_{name}" for name in names[:-1]), "y"]
    nodes = [helper.make_node("MatMul", [a, w], [b]) for a, w, b in zip(sources, names, results, strict=True)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def stored(tmp_path):
    """A model whose weights onnx itself put into a data file."""
    path = tmp_path / "m.onnx"
    onnx.save(proto(a=weight(1), b=weight(2)), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def names(folder) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def run(path) -> np.ndarray:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]


def references(path) -> dict[str, dict[str, str]]:
    initializers = onnx.load(path, load_external_data=False).graph.initializer
    return {t.name: {entry.key: entry.value for entry in t.external_data} for t in initializers}


def relocate(path, **fields: str) -> None:
    model = onnx.load(path, load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        entry.value = fields.get(entry.key, entry.value)
    onnx.save(model, path)


def test_external_weights_are_mapped_not_read(stored):
    model = load(stored)
    assert origin(model).external
    tensors = [value.const_value for value in model.graph.initializers.values()]
    assert all(isinstance(tensor, MappedTensor) for tensor in tensors)
    a = tensors[0].numpy()
    assert np.array_equal(a, weight(1))
    assert not a.flags.writeable
    assert not a.flags.owndata
    assert tensors[0].tobytes() == weight(1).tobytes()
    assert np.array_equal(np.asarray(tensors[1]), weight(2))


@pytest.mark.parametrize("dtype", ["INT4", "UINT2", "BFLOAT16", "FLOAT8E5M2", "BOOL", "COMPLEX64", "INT64"])
def test_every_type_can_be_mapped(dtype, tmp_path):
    kind = ir.DataType[dtype]
    array = np.random.default_rng(0).integers(0, 2, (3, 501)).astype(kind.numpy())
    model = load(proto(a=weight(), b=weight()))
    model.graph.register_initializer(ir.Value(name="odd", const_value=ir.Tensor(array, kind, name="odd")))
    report = save(model, tmp_path / "m.onnx", external=True)
    assert report.data == tmp_path / "m.onnx.data"
    tensor = load(tmp_path / "m.onnx").graph.initializers["odd"].const_value
    small = tensor.nbytes <= 1024
    assert isinstance(tensor, MappedTensor) is not small
    assert tensor.dtype == kind
    assert tensor.tobytes() == model.graph.initializers["odd"].const_value.tobytes()
    assert np.array_equal(tensor.numpy(), array)
    reread = numpy_helper.to_array(onnx.load(tmp_path / "m.onnx").graph.initializer[2])
    assert reread.tobytes() == array.tobytes()


def test_a_missing_data_file_is_refused(stored):
    (stored.parent / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"data file 'w.bin' with tensor 'a' is missing from .*; keep the data file"):
        load(stored)


def test_a_short_data_file_is_refused(stored):
    data = stored.parent / "w.bin"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(
        ModelError, match=r"data file 'w.bin' ends at byte 32767, but tensor 'b' lies at bytes 16384 to 32768"
    ):
        load(stored)


def test_an_empty_data_file_is_refused(stored):
    (stored.parent / "w.bin").write_bytes(b"")
    with pytest.raises(ModelError, match="ends at byte 0"):
        load(stored)


def test_a_length_below_the_shape_is_refused(stored):
    relocate(stored, length="16")
    with pytest.raises(ModelError, match=r"the data of tensor 'a' have 16 bytes, but its shape needs 16384"):
        load(stored)


def test_a_negative_offset_is_refused(stored):
    relocate(stored, offset="-4")
    with pytest.raises(ModelError, match=r"cannot be represented: .*offset.*-4"):
        load(stored)


@pytest.mark.parametrize("location", ["../w.bin", "sub/../../w.bin", "{absolute}", ""])
def test_data_outside_the_folder_are_refused(location, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "m.onnx"
    onnx.save(proto(a=weight()), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (inner / "w.bin").rename(tmp_path / "w.bin")
    relocate(path, location=location.format(absolute=tmp_path / "w.bin"))
    with pytest.raises(ModelError, match="outside the folder of the model"):
        load(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    path = inner / "m.onnx"
    onnx.save(proto(a=weight()), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (inner / "w.bin").rename(tmp_path / "w.bin")
    (inner / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelError, match="outside the folder of the model by a symbolic link"):
        load(path)


def test_a_link_inside_the_folder_is_followed(stored):
    (stored.parent / "w.bin").rename(stored.parent / "real.bin")
    (stored.parent / "w.bin").symlink_to("real.bin")
    assert np.array_equal(load(stored).graph.initializers["a"].const_value.numpy(), weight(1))


def test_a_data_file_with_several_names_is_refused(stored):
    os.link(stored.parent / "w.bin", stored.parent / "second.bin")
    with pytest.raises(ModelError, match=r"data file 'w.bin' has several hard links"):
        load(stored)


def test_data_in_a_folder_below_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    path = tmp_path / "m.onnx"
    onnx.save(proto(a=weight()), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").rename(tmp_path / "sub" / "w.bin")
    relocate(path, location="sub/w.bin")
    tensor = load(path).graph.initializers["a"].const_value
    assert np.array_equal(tensor.numpy(), weight())
    assert (tmp_path / "sub" / "w.bin").samefile(tensor.path)


def test_bytes_look_for_data_in_the_current_folder(stored, monkeypatch):
    content = stored.read_bytes()
    monkeypatch.chdir(stored.parent)
    model = load(content)
    monkeypatch.chdir("/")
    assert np.array_equal(model.graph.initializers["a"].const_value.numpy(), weight(1))


def test_external_attributes_are_taken_into_memory(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
        " { k = Constant <value = float[2] {1.0, 2.0}> () y = Add(x, k) }"
    )
    tensor = model.graph.node[0].attribute[0].t
    (tmp_path / "k.bin").write_bytes(np.array([1, 2], np.float32).tobytes())
    tensor.ClearField("float_data")
    tensor.raw_data = b""
    external_data_helper.set_external_data(tensor, "k.bin", 0, 8)
    tensor.ClearField("raw_data")
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    loaded = load(tmp_path / "m.onnx")
    constant = loaded.graph.node(0).attributes["value"].as_tensor()
    assert not isinstance(constant, ir.ExternalTensor)
    assert constant.numpy().tolist() == [1.0, 2.0]


def test_external_weights_stay_external_beside_the_new_model(stored, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    report = save(load(stored), folder / "n.onnx")
    assert names(folder) == ["n.onnx", "n.onnx.data"]
    assert report.data == folder / "n.onnx.data"
    assert report.nbytes == sum(file.stat().st_size for file in folder.iterdir())
    assert {entry["location"] for entry in references(folder / "n.onnx").values()} == {"n.onnx.data"}
    assert all(int(entry["offset"]) % 64 == 0 for entry in references(folder / "n.onnx").values())
    assert np.array_equal(run(folder / "n.onnx"), run(stored))
    onnx.checker.check_model(folder / "n.onnx")


def test_external_can_be_forced_either_way(stored, tmp_path):
    inline = tmp_path / "inline.onnx"
    assert save(load(stored), inline, external=False).data is None
    assert references(inline) == {"a": {}, "b": {}}
    assert np.array_equal(run(inline), run(stored))
    outside = tmp_path / "outside.onnx"
    save(load(inline), outside, external=True)
    assert references(outside)["a"]["location"] == "outside.onnx.data"
    assert np.array_equal(run(outside), run(stored))


def test_a_clone_of_an_external_model_stays_external(stored, tmp_path):
    clone = load(stored).clone()
    assert origin(clone) is None
    assert save(clone, tmp_path / "n.onnx").data is not None


def test_small_tensors_stay_in_the_model(tmp_path):
    model = load(proto(a=weight()))
    for name, count in (("small", 256), ("large", 257)):
        array = np.arange(count, dtype=np.float32)
        model.graph.register_initializer(ir.Value(name=name, const_value=ir.Tensor(array, name=name)))
    save(model, tmp_path / "m.onnx", external=True)
    assert {name for name, entry in references(tmp_path / "m.onnx").items() if entry} == {"a", "large"}


def test_a_tensor_used_twice_is_stored_once(tmp_path):
    model = load(proto(a=weight(), b=weight()))
    a, b = model.graph.initializers.values()
    b.const_value = a.const_value
    report = save(model, tmp_path / "m.onnx", external=True)
    found = references(tmp_path / "m.onnx")
    assert found["a"] == found["b"]
    assert report.data.stat().st_size == weight().nbytes
    assert [value.const_value.numpy().tobytes() for value in load(tmp_path / "m.onnx").graph.initializers.values()] == [
        weight().tobytes()
    ] * 2


def test_nothing_to_put_aside_makes_no_data_file(tmp_path):
    model = load(
        b'<ir_version: 8, opset_import: ["" : 17]>'
        b" g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add(x, w) }"
    )
    assert save(model, tmp_path / "m.onnx", external=True).data is None
    assert names(tmp_path) == ["m.onnx"]


def test_weights_of_subgraphs_go_to_the_data_file(tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,64] x, bool c) => (float[1,64] y) {
      y = If (c) <
        then_branch = t () => (float[1,64] a) { a = MatMul(x, w) },
        else_branch = e () => (float[1,64] b) { b = Identity(x) }
      >
    }"""
    model = onnx.parser.parse_model(text.replace("(x, w)", "(x, x)"))
    branch = next(a.g for a in model.graph.node[0].attribute if a.name == "then_branch")
    branch.node[0].input[1] = "w"
    branch.initializer.append(numpy_helper.from_array(weight(), "w"))
    path = tmp_path / "m.onnx"
    save(load(model), path, external=True)
    assert path.with_name("m.onnx.data").stat().st_size == weight().nbytes
    loaded = load(path)
    assert full_hash(load(model)) == full_hash(loaded)
    save(loaded, path, external=False)
    assert full_hash(load(model)) == full_hash(load(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": X, "c": np.array(True)})[0], X @ weight(), atol=1e-4)


def test_saving_over_the_files_of_a_model_harms_neither_it_nor_its_clones(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(proto(a=weight(1), b=weight(2), c=weight(3))), path, external=True)
    expected = []
    for _ in range(2):
        model = load(path)
        untouched = model.clone()
        first = model.graph.node(0)
        first.outputs[0].replace_all_uses_with(model.graph.inputs[0])
        model.graph.remove(first, safe=True)
        del model.graph.initializers["a"]
        # Only the first pair is read before the files are replaced; the second must be readable all the same.
        expected = expected or [full_hash(model), full_hash(untouched)]
    save(model, path)
    assert [full_hash(model), full_hash(untouched)] == expected
    assert full_hash(load(path)) == expected[0]
    assert len(names(tmp_path)) == 2
    save(untouched, path)
    assert full_hash(load(path)) == expected[1]
    assert np.allclose(run(path), X @ weight(1) @ weight(2) @ weight(3), atol=1e-2)


def test_data_that_change_under_the_model_are_noticed(tmp_path):
    path = tmp_path / "m.onnx"
    data = save(load(proto(a=weight())), path, external=True).data
    model = load(path)
    tensor = model.graph.initializers["a"].const_value
    tensor.numpy()
    with data.open("r+b") as file:
        file.write(b"changed!")
    os.utime(data, ns=(1, 1))
    for use in (tensor.numpy, tensor.tobytes, lambda: save(model, tmp_path / "n.onnx")):
        with pytest.raises(ModelError, match=r"m\.onnx\.data: the data file was changed while it was in use"):
            use()
    assert names(tmp_path) == ["m.onnx", "m.onnx.data"]


def test_a_file_cut_short_is_noticed_before_it_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    data = save(load(proto(a=weight())), path, external=True).data
    model = load(path)
    os.truncate(data, 0)
    with pytest.raises(ModelError, match="changed while it was in use"):
        model.graph.initializers["a"].const_value.numpy()


def test_a_replaced_file_leaves_the_model_as_it_was(tmp_path):
    path = tmp_path / "m.onnx"
    data = save(load(proto(a=weight())), path, external=True).data
    model = load(path)
    (tmp_path / "new").write_bytes(b"something else")
    (tmp_path / "new").replace(data)
    assert np.array_equal(model.graph.initializers["a"].const_value.numpy(), weight())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_pipe_is_no_data_file(tmp_path):
    path = tmp_path / "m.onnx"
    data = save(load(proto(a=weight())), path, external=True).data
    data.unlink()
    os.mkfifo(data)
    with pytest.raises(ModelError, match="is not a regular file"):
        load(path)


def test_a_nul_in_the_name_of_a_data_file_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(proto(a=weight())), path, external=True)
    path.write_bytes(path.read_bytes().replace(b"m.onnx.data", b"m.onnx\0data"))
    with pytest.raises(ModelError, match="a NUL in it"):
        load(path)


@pytest.fixture
def stays_in_file(monkeypatch):
    """Let weights of small model files be mapped as those of large ones are."""
    monkeypatch.setattr("onnx_passes.graph.load._STAYS_IN_FILE", 0)
    monkeypatch.setattr("onnx_passes.graph.load._BIG", 0)
    monkeypatch.setattr("onnx_passes.graph.wire._WORTH_SPLITTING", 0)


@pytest.mark.usefixtures("stays_in_file")
def test_weights_of_a_large_model_file_stay_in_it(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(proto(a=weight())), path)
    model = load(path)
    tensor = model.graph.initializers["a"].const_value
    assert isinstance(tensor, EmbeddedTensor)
    assert not tensor.numpy().flags.owndata
    assert np.array_equal(tensor.numpy(), weight())
    assert file_of(tensor).offset_of(tensor.numpy()) == path.read_bytes().index(weight().tobytes())


@pytest.mark.usefixtures("stays_in_file")
def test_a_large_model_file_may_be_saved_over(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(proto(a=weight())), path)
    model, expected = load(path), full_hash(load(path))
    save(model, path)
    assert full_hash(model) == full_hash(load(path)) == expected
    assert names(tmp_path) == ["m.onnx"]
    save(model, tmp_path / "n.onnx", external=True)
    assert np.array_equal(load(tmp_path / "n.onnx").graph.initializers["a"].const_value.numpy(), weight())


@pytest.mark.usefixtures("stays_in_file")
def test_a_large_model_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "m.onnx"
    save(load(proto(a=weight())), path)
    model = load(path)
    tensor = model.graph.initializers["a"].const_value
    os.truncate(path, 10)
    for use in (tensor.numpy, tensor.tobytes, lambda: save(model, tmp_path / "n.onnx")):
        with pytest.raises(ModelError, match="changed while it was in use"):
            use()
    assert names(tmp_path) == ["m.onnx"]
