"""Move large weights between a serialised model and memory without protobuf.

Protobuf copies every tensor on parsing, again on each access, and twice more on serialising. Here the raw data of
large initializers are cut out of the bytes before parsing, and inserted on saving.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np
import onnx
import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from google.protobuf.message import Message

BIG = 4096
"""Minimum size in bytes of tensors that are treated separately."""

_WORTH_SPLITTING = 2**20

PROTOBUF_LIMIT = 2**31 - 1
"""Size of the largest message that protobuf reads or writes."""

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_ONE_BYTE = [bytes([value]) for value in range(0x80)]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Weight(NamedTuple):
    """The raw data of one initializer: bytes ``start`` to ``end`` of the serialised model."""

    position: int
    start: int
    end: int


class _Field(NamedTuple):
    number: int
    kind: int
    begin: int
    start: int
    end: int


def split(data: memoryview) -> tuple[bytes | memoryview, list[Weight]]:
    """Cut the raw data of large initializers out of a serialised model.

    Returns a parsable model without these data, and their positions. Bytes that do not look like a model are returned
    unchanged, as the parser reports errors.
    """
    if sys.byteorder != "little" or len(data) < _WORTH_SPLITTING:
        return data, []
    try:
        graphs = [f for f in _fields(data, 0, len(data)) if f.number == _MODEL_GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _BYTES:
            return data, []
        (graph,) = graphs
        parts, weights = _split_graph(data, graph)
    except (IndexError, ValueError):
        return data, []
    if not weights:
        return data, []
    length = sum(len(part) for part in parts)
    head = tag(_MODEL_GRAPH) + varint(length)
    return b"".join([data[: graph.begin], head, *parts, data[graph.end :]]), weights


def read_weight(
    data: memoryview, weight: Weight, header: onnx.TensorProto, *, copy: bool = True
) -> ir.TensorProtocol | None:
    """Copy one weight into an aligned array; ``None`` if its size does not match its type and shape.

    Without ``copy`` it stays in place.
    """
    raw = np.frombuffer(data, np.uint8, weight.end - weight.start, weight.start)
    if copy:
        own = np.empty(raw.size, np.uint8)
        own[:] = raw
        raw = own
    return _tensor(raw, header)


def copy_model(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[int, ir.TensorProtocol | None]]:
    """Copy a model, with large initializers not in the proto but in arrays, as by :func:`read_weight`."""
    copy = onnx.ModelProto()
    weights: dict[int, ir.TensorProtocol | None] = {}
    _copy_fields(model, copy, but="graph")
    _copy_fields(model.graph, copy.graph, but="initializer")
    for position, tensor in enumerate(model.graph.initializer):
        header = copy.graph.initializer.add()
        if sys.byteorder != "little" or not tensor.HasField("raw_data") or math.prod(tensor.dims) < BIG:
            header.CopyFrom(tensor)
        else:
            _copy_fields(tensor, header, but="raw_data")
            weights[position] = _tensor(np.frombuffer(tensor.raw_data, np.uint8), header)
    return copy, weights


def _is_repeated(field: Any) -> bool:
    # Before protobuf 6.30 only the label tells, which newer versions lack.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _copy_fields(source: Message, target: Message, but: str) -> None:
    for field in source.DESCRIPTOR.fields:
        if field.name == but:
            continue
        if _is_repeated(field):
            getattr(target, field.name).MergeFrom(getattr(source, field.name))
        elif source.HasField(field.name):
            value = getattr(source, field.name)
            if field.message_type is None:
                setattr(target, field.name, value)
            else:
                getattr(target, field.name).CopyFrom(value)


def _tensor(raw: np.ndarray[Any, np.dtype[np.uint8]], header: onnx.TensorProto) -> ir.TensorProtocol | None:
    dims = tuple(header.dims)
    try:
        dtype = ir.DataType(header.data_type)
    except ValueError:
        return None
    if dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING) or raw.nbytes != tensor_nbytes(dtype, dims):
        return None
    props = {entry.key: entry.value for entry in header.metadata_props} or None
    doc = header.doc_string or None
    if dtype.bitwidth < 8:
        return ir.PackedTensor(raw, dtype, shape=dims, name=header.name, doc_string=doc, metadata_props=props)
    array = raw.view(dtype.numpy()).reshape(dims)
    return ir.Tensor(array, dtype, name=header.name, doc_string=doc, metadata_props=props)


def tensor_nbytes(dtype: ir.DataType, dims: tuple[int, ...]) -> int:
    """Return the size in bytes of a tensor, packed as ONNX packs it."""
    return (math.prod(dims) * dtype.bitwidth + 7) // 8


def tensor_data(tensor: ir.TensorProtocol) -> memoryview | bytes:
    """Return the little-endian bytes of a tensor, without a copy if memory already holds them."""
    if tensor.dtype.bitwidth < 8 or sys.byteorder != "little":
        return tensor.tobytes()
    return np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data


class Stream:
    """A serialised model with weights to be written in place, whose size is known beforehand."""

    def __init__(self, skeleton: onnx.ModelProto, weights: Mapping[int, ir.TensorProtocol]) -> None:
        """Take over ``skeleton``, with the data of the initializers at the indices of ``weights``."""
        initializers: list[tuple[bytes, ir.TensorProtocol | None]] = []
        for index, proto in enumerate(skeleton.graph.initializer):
            tensor = weights.get(index)
            if tensor is not None:
                proto.ClearField("external_data")
                proto.ClearField("data_location")
            initializers.append((proto.SerializeToString(), tensor))
        del skeleton.graph.initializer[:]
        graph = skeleton.graph.SerializeToString()
        skeleton.ClearField("graph")
        self._heads: list[tuple[bytes, ir.TensorProtocol | None]] = []
        length = len(graph)
        for header, tensor in initializers:
            raw = b"" if tensor is None else tag(_TENSOR_RAW_DATA) + varint(tensor.nbytes)
            size = len(header) + len(raw) + (0 if tensor is None else tensor.nbytes)
            prefix = tag(_GRAPH_INITIALIZER) + varint(size)
            self._heads.append((prefix + header + raw, tensor))
            length += len(prefix) + size
        self._start = skeleton.SerializeToString() + tag(_MODEL_GRAPH) + varint(length) + graph
        self.nbytes = len(self._start) - len(graph) + length

    def write(self, file: BinaryIO, after: Callable[[ir.TensorProtocol], object] = id) -> None:
        """Write the model, one tensor in memory at a time; call ``after`` for each separately written tensor."""
        file.write(self._start)
        for head, tensor in self._heads:
            file.write(head)
            if tensor is not None:
                file.write(tensor_data(tensor))
                after(tensor)


def _split_graph(data: memoryview, graph: _Field) -> tuple[list[memoryview | bytes], list[Weight]]:
    parts: list[memoryview | bytes] = []
    weights: list[Weight] = []
    copied, index = graph.start, -1
    for field in _fields(data, graph.start, graph.end):
        if field.number != _GRAPH_INITIALIZER:
            continue
        if field.kind != _BYTES:
            raise ValueError("an initializer is no message")
        index += 1
        if field.end - field.start < BIG:
            continue
        raw = [f for f in _fields(data, field.start, field.end) if f.number == _TENSOR_RAW_DATA]
        if len(raw) != 1 or raw[0].end - raw[0].start < BIG:
            continue
        before, after = data[field.start : raw[0].begin], data[raw[0].end : field.end]
        head = tag(_GRAPH_INITIALIZER) + varint(len(before) + len(after))
        parts += [data[copied : field.begin], head, before, after]
        weights.append(Weight(index, raw[0].start, raw[0].end))
        copied = field.end
    parts.append(data[copied : graph.end])
    return parts, weights


def _fields(data: memoryview, position: int, end: int) -> Iterator[_Field]:
    while position < end:
        begin = position
        key, position = _read_varint(data, position)
        kind = key & 7
        if kind == _BYTES:
            length, start = _read_varint(data, position)
            position = start + length
        elif kind == _VARINT:
            start = position
            _, position = _read_varint(data, position)
        elif kind in (_FIXED32, _FIXED64):
            start = position
            position += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError("groups do not occur in ONNX")
        if position > end:
            raise ValueError("a field reaches beyond its message")
        yield _Field(key >> 3, kind, begin, start, position)


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    byte = data[position]
    value, shift = byte & 0x7F, 7
    position += 1
    while byte & 0x80:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return value, position


def varint(value: int) -> bytes:
    """Encode an unsigned number with seven bits per byte."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int) -> bytes:
    """Encode the tag of a field with text, bytes or a message."""
    return varint(number << 3 | _BYTES)
