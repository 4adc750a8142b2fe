"""Types with maps, as ZipMap of scikit-learn's exporters returns: kept as metadata, as the IR lacks them.

A value of such a type has no type in the IR, but metadata with the type of the file, which is written back.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

import onnx
import onnx_ir as ir

_KEY = "onnx_passes.type_with_maps"


def holds_map(type_: onnx.TypeProto) -> bool:
    """Return whether a type is a map, or a sequence or optional of one."""
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return holds_map(getattr(type_, kind).elem_type)
    return kind == "map_type"


def set_aside(model: onnx.ModelProto) -> None:
    """Move types with maps to metadata, which the IR keeps."""
    for value in _values(model.graph):
        if holds_map(value.type):
            text = base64.b64encode(value.type.SerializeToString(deterministic=True)).decode()
            value.metadata_props.add(key=_KEY, value=text)
            value.ClearField("type")


def put_back(model: onnx.ModelProto) -> None:
    """Restore the types in metadata of values without another type."""
    for value in _values(model.graph):
        _put_back(value)


def described(value: ir.Value) -> onnx.ValueInfoProto:
    """Return name, type and shape of a value as a message, with its type from metadata."""
    found = ir.serde.serialize_value(value)
    _put_back(found)
    return found


def map_text(value: ir.Value) -> str | None:
    """Return a type in metadata as text, ``seq(map(int64, float))``; None if there is none."""
    type_ = described(value).type if value.type is None and _KEY in value.metadata_props else None
    return None if type_ is None or type_.WhichOneof("value") is None else _text(type_)


def _text(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind == "map_type":
        key = ir.DataType(type_.map_type.key_type).name.lower()
        return f"map({key}, {_text(type_.map_type.value_type)})"
    if kind in ("sequence_type", "optional_type"):
        name = "seq" if kind == "sequence_type" else "optional"
        return f"{name}({_text(getattr(type_, kind).elem_type)})"
    return ir.DataType(type_.tensor_type.elem_type).name.lower()


def _put_back(value: onnx.ValueInfoProto) -> None:
    for position, entry in reversed(list(enumerate(value.metadata_props))):
        if entry.key == _KEY:
            _restore(value, entry.value)
            del value.metadata_props[position]


def _restore(value: onnx.ValueInfoProto, text: str) -> None:
    if value.type.WhichOneof("value") is not None:
        return
    try:
        value.type.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        # Metadata of another tool: the file has a value without a type.
        value.ClearField("type")


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from (*graph.input, *graph.output, *graph.value_info)
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _values(inner)
