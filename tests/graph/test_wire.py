"""Weights cut out of serialised models and written back in are those that protobuf would have seen."""

import io

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from onnx_passes.graph import wire


@pytest.fixture(autouse=True)
def split_small_models(monkeypatch):
    monkeypatch.setattr(wire, "_WORTH_SPLITTING", 1)
    monkeypatch.setattr(wire, "BIG", 64)


def model(sizes: list[int]) -> onnx.ModelProto:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17], producer_name: "p"> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    for number, size in enumerate(sizes):
        array = np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)
        proto.graph.initializer.append(numpy_helper.from_array(array, f"w{number}"))
    proto.graph.doc_string = "after the weights"
    return proto


SIZES = st.lists(st.integers(0, 300), max_size=8)


@settings(max_examples=60, deadline=None)
@given(SIZES)
def test_split_takes_out_exactly_the_big_weights(sizes):
    proto = model(sizes)
    data = memoryview(proto.SerializeToString())
    skeleton, weights = wire.split(data)
    assert [w.position for w in weights] == [i for i, size in enumerate(sizes) if size >= 64]
    rest = onnx.ModelProto.FromString(bytes(skeleton))
    for weight in weights:
        header = rest.graph.initializer[weight.position]
        assert not header.raw_data
        tensor = wire.read_weight(data, weight, header)
        assert tensor is not None
        header.raw_data = tensor.tobytes()
    assert rest == proto


@settings(max_examples=60, deadline=None)
@given(SIZES, st.sets(st.integers(0, 7)))
def test_stream_writes_what_protobuf_would(sizes, streamed):
    proto = model(sizes)
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(proto)
    weights = {}
    for position in streamed & set(range(len(sizes))):
        tensor = skeleton.graph.initializer[position]
        weights[position] = ir.Tensor(numpy_helper.to_array(tensor), name=tensor.name)
        tensor.ClearField("raw_data")
    stream = wire.Stream(skeleton, weights)
    file = io.BytesIO()
    stream.write(file)
    assert len(file.getvalue()) == stream.nbytes
    assert onnx.ModelProto.FromString(file.getvalue()) == proto


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_split_leaves_bytes_alone_that_are_no_model(data):
    skeleton, weights = wire.split(memoryview(data))
    assert bytes(skeleton) == data or weights


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 600), st.integers(0, 255))
@example(position=27, byte=40)
def test_split_of_a_damaged_model_means_the_same_to_protobuf(position, byte):
    content = bytearray(model([100, 10, 200]).SerializeToString())
    content[position % len(content)] = byte
    data = memoryview(bytes(content))
    skeleton, weights = wire.split(data)
    if not weights:
        assert bytes(skeleton) == content
        return
    try:
        whole = onnx.ModelProto.FromString(bytes(content))
    except DecodeError:
        with pytest.raises(DecodeError):
            onnx.ModelProto.FromString(bytes(skeleton))
        return
    rest = onnx.ModelProto.FromString(bytes(skeleton))
    for weight in weights:
        rest.graph.initializer[weight.position].raw_data = bytes(data[weight.start : weight.end])
    assert rest == whole


def test_a_graph_in_two_parts_is_left_to_protobuf():
    first, second = model([100]), model([])
    second.ClearField("ir_version")
    data = first.SerializeToString() + second.SerializeToString()
    skeleton, weights = wire.split(memoryview(data))
    assert not weights
    assert bytes(skeleton) == data


@pytest.mark.parametrize("dtype", [d for d in ir.DataType if d not in (ir.DataType.UNDEFINED, ir.DataType.STRING)])
def test_sizes_are_those_of_onnx(dtype):
    for dims in ((), (0, 3), (5,), (3, 7)):
        array = np.zeros(dims, dtype.numpy())
        tensor = ir.Tensor(array, dtype)
        assert wire.tensor_nbytes(dtype, dims) == len(tensor.tobytes())
        assert bytes(wire.tensor_data(tensor)) == tensor.tobytes()


def test_data_of_strided_arrays_are_in_order():
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert bytes(wire.tensor_data(ir.Tensor(array))) == np.ascontiguousarray(array).tobytes()
