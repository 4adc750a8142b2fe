"""Loading: every kind of source, and a clear sentence for everything that is no model."""

import contextlib
import gc
import io
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.core.errors import ExitCode, ModelError
from onnx_passes.graph import wire
from onnx_passes.graph.hashing.fingerprint import full_hash, structural_hash
from onnx_passes.graph.load import load, origin
from onnx_passes.graph.save import save, to_proto
from tests.helpers.small_models import files

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
TEXT = f"""{HEAD}
g (float[2] x) => (float[2] y) <float[2] w = {{1.0, 2.0}}> {{
  [first] h = Add(x, w)
  [second] y = Relu(h)
}}
"""


def proto(text: str = TEXT) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def refusal(source) -> str:
    with pytest.raises(ModelError) as info:
        load(source)
    assert info.value.exit_code is ExitCode.USAGE
    assert "\n" not in str(info.value)
    return str(info.value)


def body(nodes: str, signature: str = "(float[2] x) => (float[2] y)") -> onnx.ModelProto:
    return proto(f"{HEAD} g {signature} {{ {nodes} }}")


class Standard:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_every_source_gives_the_same_model(tmp_path, monkeypatch):
    expected = full_hash(ir.from_proto(proto()))
    data = proto().SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    monkeypatch.setattr(sys, "stdin", Standard(data))
    with path.open("rb") as file:
        models = [load(s) for s in (path, str(path), "-", data, bytearray(data), memoryview(data), file, proto())]
    monkeypatch.setattr(sys, "stdin", Standard(TEXT.encode()))
    models.append(load("-"))
    assert [full_hash(model) for model in models] == [expected] * 9


@pytest.mark.parametrize("name", ["m.onnxtxt", "m.txt", "m.onnx", "m", "m.json", "m.textproto", "m.pbtxt"])
def test_format_follows_from_suffix_or_content(name, tmp_path):
    model = load(proto())
    path = tmp_path / name
    if name in ("m.onnx", "m"):
        path.write_text("\n  " + TEXT)
    else:
        save(model, path)
    assert full_hash(load(path)) == full_hash(model)


def test_json_and_protobuf_text_are_told_by_content(tmp_path):
    model = load(proto())
    for format_ in ("json", "textproto"):
        buffer = io.BytesIO()
        save(model, buffer, format=format_)
        assert structural_hash(load(buffer.getvalue())) == structural_hash(model)


def test_a_model_in_memory_is_passed_through():
    model = ir.from_proto(proto())
    assert load(model) is model
    assert origin(model) is None


def test_origin_tells_where_a_model_came_from(tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text(TEXT)
    source = origin(load(path))
    assert source is not None
    assert (source.path, source.format, source.external, source.repairs) == (path, "text", False, ())
    assert origin(load(TEXT.encode())).path is None
    assert origin(load(path).clone()) is None


def test_a_callers_proto_is_neither_changed_nor_shared():
    theirs = proto()
    theirs.opset_import[0].domain = "ai.onnx"
    before = theirs.SerializeToString(deterministic=True)
    model = load(theirs)
    model.graph.initializers["w"].name = "renamed"
    assert theirs.SerializeToString(deterministic=True) == before
    theirs.graph.initializer[0].float_data[0] = 99.0
    assert model.graph.initializers["renamed"].const_value.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled):
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        load(proto())
        refusal(b"nonsense")
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


def big_model(dtype: ir.DataType, count: int) -> tuple[onnx.ModelProto, bytes]:
    nbytes = wire.tensor_nbytes(dtype, (count,))
    raw = np.random.default_rng(0).integers(0, 2, nbytes, dtype=np.uint8).tobytes()
    model = proto()
    tensor = model.graph.initializer.add(name="big", data_type=dtype.value, dims=[count], raw_data=raw)
    tensor.doc_string = "about"
    tensor.metadata_props.add(key="k", value="v")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3), "after"))
    return model, raw


@pytest.mark.parametrize("dtype", ["FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "BOOL", "FLOAT8E4M3FN", "UINT4"])
def test_big_weights_are_read_bit_by_bit_into_aligned_memory(dtype, tmp_path):
    model, raw = big_model(ir.DataType[dtype], 3 * 2**20 + 1)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    loaded = load(path)
    tensor = loaded.graph.initializers["big"].const_value
    assert not isinstance(tensor, ir.TensorProtoTensor)
    assert tensor.tobytes() == raw
    assert tensor.numpy() is not None
    assert tensor.numpy().flags.aligned
    assert (tensor.doc_string, dict(tensor.metadata_props)) == ("about", {"k": "v"})
    assert full_hash(loaded) == full_hash(ir.from_proto(model))
    path.write_bytes(b"overwritten")
    assert tensor.tobytes() == raw


@pytest.mark.parametrize("dtype", ["FLOAT", "UINT4"])
def test_big_weights_of_a_callers_proto_are_copied_once_and_never_shared(dtype):
    theirs, raw = big_model(ir.DataType[dtype], 2**15)
    before = theirs.SerializeToString(deterministic=True)
    model = load(theirs)
    tensor = model.graph.initializers["big"].const_value
    assert not isinstance(tensor, ir.TensorProtoTensor)
    assert full_hash(model) == full_hash(ir.from_proto(theirs))
    model.graph.initializers["big"].name = "renamed"
    assert theirs.SerializeToString(deterministic=True) == before
    theirs.graph.initializer[1].raw_data = b""
    assert tensor.tobytes() == raw


@pytest.mark.parametrize("change", [{"dims": [7]}, {"data_type": 77}, {"data_type": TensorProto.STRING}])
def test_big_weights_of_a_wrong_size_or_type_are_refused(change):
    model, _ = big_model(ir.DataType.FLOAT, 2**20)
    for field in change:
        model.graph.initializer[1].ClearField(field)
    model.graph.initializer[1].MergeFrom(onnx.TensorProto(**change))
    assert refusal(model.SerializeToString()) == (
        "bytes: the data of initializer 'big' do not fit its type and shape; the file is corrupt"
    )
    assert "initializer 'big'" in refusal(model)


def test_a_truncated_big_model_is_refused():
    data = big_model(ir.DataType.FLOAT, 2**20)[0].SerializeToString()
    for length in (len(data) - 1, len(data) // 2, 2**20 + 5):
        assert "damaged" in refusal(data[:length])


def test_missing_file_names_its_neighbours(tmp_path):
    save(load(proto()), tmp_path / "other.onnx")
    assert refusal(tmp_path / "m.onnx") == f"{tmp_path / 'm.onnx'}: there is no such file; the folder has other.onnx"
    assert "does not exist" in refusal(tmp_path / "nowhere" / "m.onnx")


def test_folder_is_refused(tmp_path):
    assert refusal(tmp_path) == f"{tmp_path}: this is a folder; name a model file in it"


def test_unreadable_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"x")

    def deny(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    assert refusal(path) == f"{path}: permission to read the file is denied"


@pytest.mark.parametrize("data", [b"", b"  \n"])
def test_empty_file_is_refused(data, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert refusal(path) == f"{path}: the file is empty"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n0000", "PNG"),
        (b"PK\x03\x04rest", "PyTorch"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"\x1f\x8b\x08\x00", "gzip"),
    ],
)
def test_well_known_other_files_are_named(data, kind, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert kind in refusal(path)


@pytest.mark.parametrize(
    "data",
    [
        b"just some words in a file\n",
        bytes(range(256)),
        b"\x08\x0a",
        b"hello",
        helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]).SerializeToString(),
        onnx.GraphProto(name="g").SerializeToString(),
        onnx.ModelProto(ir_version=8).SerializeToString(),
    ],
)
def test_what_is_no_model_is_refused(data):
    assert "not an ONNX model" in refusal(data)


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_random_bytes_are_refused_with_one_sentence(data):
    refusal(data)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_model_never_ends_in_a_foreign_error(data):
    content = bytearray(proto().SerializeToString())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(position, len(content))) :]
    with contextlib.suppress(ModelError):
        load(bytes(content))


def test_a_model_without_version_is_refused():
    model = proto()
    model.ClearField("ir_version")
    assert "no IR version" in refusal(model.SerializeToString())
    assert "a text begins with <ir_version" in refusal(
        b'<opset_import: ["" : 21]> g (float x) => (float y) { y = Relu(x) }'
    )


def test_text_errors_have_line_and_column(tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text(TEXT.replace("Relu(h)", "Relu(h"))
    assert refusal(path).startswith(f"{path}:5:1: this is not ONNX text: ")
    path.write_bytes(b"\xff\xfe\x00")
    assert "byte 0 is not UTF-8" in refusal(path)


def test_json_errors_are_refused(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"irVersion": "x"}')
    assert "not a model in json format" in refusal(path)


def test_an_open_text_file_is_refused(tmp_path):
    path = tmp_path / "m.onnxtxt"
    path.write_text(TEXT)
    with path.open() as file:
        assert "open it in binary mode" in refusal(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.graph.node[1].output.append("h"), "'h' is defined twice, the second time by node 'second' (Relu)"),
        (lambda m: m.graph.node[1].output.append("x"), "'x' is defined twice, the second time by node 'second' (Relu)"),
        (lambda m: m.graph.node[1].output.append("w"), "'w' is defined twice, the second time by node 'second' (Relu)"),
        (lambda m: m.graph.input.append(m.graph.input[0]), "graph input 'x' is defined twice"),
        (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "initializer 'w' is defined twice"),
        (
            lambda m: m.graph.node[0].input.append("nowhere"),
            "node 'first' (Add) reads 'nowhere', which nothing defines",
        ),
        (lambda m: m.graph.node[0].ClearField("name"), None),
        (lambda m: m.graph.output.add(name="nowhere"), "nothing defines the output 'nowhere'"),
        (lambda m: m.graph.node[0].ClearField("op_type"), "a node that yields 'h' names no operator"),
        (lambda m: m.graph.initializer[0].ClearField("name"), "initializer number 0 has no name"),
        (
            lambda m: m.graph.initializer[0].ClearField("float_data"),
            "initializer 'w' holds 0 elements, but its shape needs 2",
        ),
        (lambda m: m.graph.initializer[0].dims.append(3), "initializer 'w' holds 2 elements, but its shape needs 6"),
        (lambda m: setattr(m.graph.initializer[0], "data_type", 77), "initializer 'w' has the unknown data type 77"),
        (lambda m: m.training_info.add(), "the model holds training information"),
    ],
)
def test_models_that_make_no_sense_are_refused(change, message):
    model = proto()
    change(model)
    if message is None:
        load(model)
    else:
        assert message in refusal(model)


def test_raw_data_of_a_wrong_size_are_refused():
    model = proto()
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.raw_data = b"\0" * 7
    assert "initializer 'w' holds 7 bytes, but its shape needs 8" in refusal(model)


def test_a_dangling_input_inside_a_subgraph_is_refused():
    text = """c = Constant <value = bool {1}> ()
    y = If (c) <
      then_branch = t () => (float[2] a) { a = Relu(x) },
      else_branch = e () => (float[2] b) { b = Neg(q) }
    >"""
    assert "the Neg node that yields 'b' reads 'q', which nothing defines" in refusal(body(text))


def test_a_subgraph_that_returns_an_outer_value_is_refused():
    text = """c = Constant <value = bool {1}> () r = Relu(x)
    y = If (c) <
      then_branch = t () => (float[2] r) { q = Relu(x) },
      else_branch = e () => (float[2] b) { b = Neg(x) }
    >"""
    assert "a subgraph returns 'r' of an outer graph as its output; put an Identity" in refusal(body(text))


def test_a_dangling_input_inside_a_function_is_refused():
    text = f"""{HEAD.replace("]", ', "f" : 1]')} g (float[2] x) => (float[2] y) {{ y = f.F(x) }}
    <opset_import: ["" : 21], domain: "f"> F (a) => (b) {{ b = Add(a, q) }}"""
    assert "the Add node that yields 'b' reads 'q', which nothing defines" in refusal(proto(text))


def test_a_cycle_is_refused_and_named():
    model = body("[n1] a = Add(x, b) [n2] b = Relu(a) [n3] y = Neg(b)")
    assert refusal(model).startswith(
        "ModelProto: the graph has a cycle: node 'n1' (Add) → node 'n2' (Relu)"
    ) or "node 'n2' (Relu) → node 'n1' (Add)" in refusal(model)
    assert "node 'n1' (Relu)" in refusal(body("[n1] y = Relu(y)"))


def test_a_cycle_through_a_subgraph_is_refused():
    text = """c = Constant <value = bool {1}> ()
    [loop] y = If (c) <
      then_branch = t () => (float[2] a) { a = Relu(q) },
      else_branch = e () => (float[2] b) { b = Neg(x) }
    >
    [back] q = Neg(y)"""
    message = refusal(body(text))
    assert "cycle" in message
    assert "node 'loop' (If)" in message
    assert "node 'back' (Neg)" in message


def test_sparse_initializers_are_refused():
    model = proto()
    sparse = model.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(helper.make_tensor("s", TensorProto.FLOAT, [1], [1.0]))
    sparse.indices.CopyFrom(helper.make_tensor("i", TensorProto.INT64, [1], [2]))
    assert "initializer 's' is sparse; store it as a dense tensor" in refusal(model)


def test_sparse_attributes_are_refused():
    model = proto()
    node = model.graph.node.add(op_type="Constant", output=["k"], name="k")
    attribute = node.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.dims.append(4)
    assert "node 'k' (Constant) holds a sparse tensor" in refusal(model)


def test_maps_that_are_inputs_are_kept():
    model = proto()
    kind = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [1]))
    model.graph.input.append(helper.make_value_info("m", kind))
    assert to_proto(load(model)).graph.input[-1] == model.graph.input[-1]


@pytest.mark.parametrize("path", files(), indirect=True)
def test_models_load_and_survive_being_saved(path, tmp_path):
    model = load(path)
    save(model, tmp_path / "m.onnx")
    again = load(tmp_path / "m.onnx")
    assert structural_hash(again) == structural_hash(model)
    assert not origin(again).repairs
    save(again, tmp_path / "m.onnx", external=True)
    assert full_hash(load(tmp_path / "m.onnx")) == full_hash(again)


def test_small_weights_are_decoded_once_and_written_as_they_came():
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Add(x, w) }'
    proto = onnx.parser.parse_model(text)
    raw = np.array([1.5, -0.0], np.float32).tobytes()
    tensor = onnx.TensorProto(name="w", data_type=1, dims=[2], raw_data=raw, doc_string="about")
    tensor.metadata_props.add(key="k", value="v")
    proto.graph.initializer.append(tensor)
    loaded = load(proto).graph.initializers["w"].const_value
    assert isinstance(loaded, ir.Tensor)
    assert ir.serde.serialize_tensor(loaded) == tensor
