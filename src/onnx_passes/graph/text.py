"""Lossless ONNX text: content without a syntax goes into comments at the end.

A comment ``#@ PATH JSON`` sets fields of the message at PATH, for instance quantization annotations of ``graph``
or documentation to ``graph/node/3``. Other readers of ONNX text skip it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import onnx_ir as ir
from google.protobuf import json_format
from onnx import AttributeProto, TensorProto

from onnx_passes.core.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.message import Message

_MARK = "#@ "
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DOMAIN = re.compile(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?", re.ASCII)
_POSITION = re.compile(r"line: (\d+) column: (\d+)")

_ABOUT = {
    "configuration": "device configurations",
    "device_configurations": "device configurations",
    "doc_string": "documentation",
    "metadata_props": "metadata",
    "name": "names of constants",
    "quantization_annotation": "quantization annotations",
    "type": "denotations of types",
    "value_info": "types in functions",
}
_ESSENTIAL = {
    "attribute": "attributes",
    "attribute_proto": "defaults of function attributes",
    "domain": "domains",
    "op_type": "operators",
    "overload": "overloads",
    "raw_data": "tensors",
}
_PRINTED_TYPES = {
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
    TensorProto.BOOL,
    TensorProto.STRING,
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E4M3FNUZ,
    TensorProto.FLOAT8E5M2,
    TensorProto.FLOAT8E5M2FNUZ,
    TensorProto.FLOAT8E8M0,
}
_PRINTED_AS_NUMBERS = {TensorProto.FLOAT, TensorProto.DOUBLE}
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)
_PRINTS_EXACTLY = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 23)
"""Earlier versions of ONNX can lose digits, empty tensors and names of dimensions between printer and parser."""


def to_text(model: onnx.ModelProto) -> tuple[str, list[str]]:
    """Print a model, which is consumed, as text; also return the losses for other readers of the text."""
    rest = _Rest()
    rest.model(model)
    text = onnx.printer.to_text(model)
    if rest.remarks:
        text = "\n".join([text.rstrip("\n"), *rest.remarks, ""])
    return text, rest.notes()


def from_text(text: str, where: str) -> onnx.ModelProto:
    """Parse text with its comments; raise ModelError with line and column."""
    try:
        model = onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, UnicodeError, LookupError) as error:
        raise _syntax_error(error, where) from error
    lines = text.rstrip("\n").split("\n")
    first = len(lines)
    while first > 0 and lines[first - 1].startswith(_MARK):
        first -= 1
    for number, line in enumerate(lines[first:], first + 1):
        _apply(model, line.removeprefix(_MARK), f"{where}:{number}")
    return model


def _syntax_error(error: Exception, where: str) -> ModelError:
    message = error.args[0] if error.args else ""
    if isinstance(message, bytes):
        message = message.decode(errors="replace")
    lines = str(message).strip().splitlines()
    position = _POSITION.search(str(message))
    place = f"{where}:{position[1]}:{position[2]}" if position else where
    reason = lines[-1].strip().rstrip(".") if lines else "it cannot be parsed"
    return ModelError(f"this is not ONNX text: {reason}", where=place)


def _apply(model: onnx.ModelProto, remark: str, where: str) -> None:
    path, _, fields = remark.partition(" ")
    message: Any = model
    try:
        for token in filter(None, path.split("/")):
            if token.isdigit():
                message = message[int(token)]
            elif token in message.DESCRIPTOR.fields_by_name:
                message = getattr(message, token)
            else:
                raise KeyError(token)
        values = json.loads(fields)
        for name in values:
            message.ClearField(name)
        json_format.ParseDict(values, message)
    except (ValueError, LookupError, AttributeError, TypeError, json_format.ParseError) as error:
        raise ModelError(
            f"the comment on '{path}' refers to nothing in the model", where=where, hint="remove this line"
        ) from error


class _Rest:
    """Moves content of a model that cannot be printed and parsed back to remarks."""

    def __init__(self) -> None:
        self.remarks: list[str] = []
        self._taken: set[str] = set()

    def notes(self) -> list[str]:
        about = sorted({_ABOUT[name] for name in self._taken & _ABOUT.keys()})
        essential = sorted({_ESSENTIAL[name] for name in self._taken & _ESSENTIAL.keys()})
        notes: list[str] = []
        if about:
            notes.append(f"ONNX text keeps {', '.join(about)} in comments, which other readers skip")
        if essential:
            notes.append(f"ONNX text keeps {', '.join(essential)} in comments: other readers see a wrong model")
        return notes

    def model(self, model: onnx.ModelProto) -> None:
        self._take(model, "", ("configuration",))
        self._graph(model.graph, "graph")
        for position, function in enumerate(model.functions):
            path = f"functions/{position}"
            self._take(function, path, ("doc_string", "metadata_props", "attribute_proto", "value_info"))
            self._nodes(function.node, path)

    def _graph(self, graph: onnx.GraphProto, path: str) -> None:
        self._take(graph, path, ("doc_string", "metadata_props", "quantization_annotation"))
        for kind in ("input", "output", "value_info"):
            values = cast("Iterable[onnx.ValueInfoProto]", getattr(graph, kind))
            for position, value in enumerate(values):
                plain = _is_plain(value.type) and (_PRINTS_EXACTLY or _value_survives(value))
                fields = ("doc_string", "metadata_props") + (() if plain else ("type",))
                self._take(value, f"{path}/{kind}/{position}", fields)
        for position, tensor in enumerate(graph.initializer):
            place = f"{path}/initializer/{position}"
            self._take(tensor, place, ("doc_string", "metadata_props"))
            if not _prints(tensor):
                self._take_data(tensor, place)
        self._nodes(graph.node, path)

    def _nodes(self, nodes: Iterable[onnx.NodeProto], path: str) -> None:
        for position, node in enumerate(nodes):
            self._node(node, f"{path}/node/{position}")

    def _node(self, node: onnx.NodeProto, path: str) -> None:
        self._take(node, path, ("doc_string", "metadata_props", "device_configurations"))
        odd = [
            name
            for name, rule in (("domain", _DOMAIN), ("op_type", _IDENTIFIER), ("overload", _DOMAIN))
            if not rule.fullmatch(getattr(node, name))
        ]
        self._take(node, path, odd)
        if not node.op_type:
            node.op_type = "Operator"
        if all(_attribute_prints(attribute) for attribute in node.attribute):
            for position, attribute in enumerate(node.attribute):
                self._attribute(attribute, f"{path}/attribute/{position}")
        else:
            self._take(node, path, ("attribute",))

    def _attribute(self, attribute: onnx.AttributeProto, path: str) -> None:
        self._take(attribute, path, ("doc_string",))
        if attribute.type == AttributeProto.TENSOR:
            named = _IDENTIFIER.fullmatch(attribute.t.name)
            fields = ("doc_string", "metadata_props") + (() if named else ("name",))
            self._take(attribute.t, f"{path}/t", fields)
        elif attribute.type == AttributeProto.GRAPH:
            self._graph(attribute.g, f"{path}/g")
        for number, graph in enumerate(attribute.graphs):
            self._graph(graph, f"{path}/graphs/{number}")

    def _take(self, message: Message, path: str, fields: Iterable[str]) -> None:
        taken = {field.name for field, _ in message.ListFields()}.intersection(fields)
        if not taken:
            return
        part = type(message)()
        for name in sorted(taken):
            value = getattr(message, name)
            if isinstance(value, str):
                setattr(part, name, value)
            elif hasattr(value, "CopyFrom"):
                getattr(part, name).CopyFrom(value)
            else:
                getattr(part, name).extend(value)
            message.ClearField(name)
        self._remark(path, _fields(part), taken)

    def _take_data(self, tensor: onnx.TensorProto, path: str) -> None:
        """Replace the data by an invalid reference, so that no other reader takes them for zeros."""
        raw = ir.TensorProtoTensor(tensor).tobytes()
        bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        bare.data_location = TensorProto.EXTERNAL
        bare.external_data.add(key="location", value=_MARK.strip())
        tensor.CopyFrom(bare)
        data = _fields(onnx.TensorProto(raw_data=raw))
        self._remark(path, {**data, "external_data": [], "data_location": "DEFAULT"}, {"raw_data"})

    def _remark(self, path: str, fields: dict[str, Any], names: set[str]) -> None:
        self._taken |= names
        self.remarks.append(f"{_MARK}{path or '/'} {json.dumps(fields, ensure_ascii=False, separators=(',', ':'))}")


def _fields(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _is_plain(type_: onnx.TypeProto) -> bool:
    """Return whether a type has no denotation and names its elements, as the syntax requires."""
    if type_.denotation:
        return False
    kind = type_.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _is_plain(getattr(type_, kind).elem_type)
    if kind != "tensor_type":
        return kind is None
    tensor = type_.tensor_type
    return tensor.elem_type != TensorProto.UNDEFINED and not any(dim.denotation for dim in tensor.shape.dim)


def _prints(tensor: onnx.TensorProto) -> bool:
    """Return whether the elements of a tensor can be parsed back bit by bit from their text."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    if tensor.data_type not in _PRINTED_TYPES:
        return False
    if not _PRINTS_EXACTLY and not _tensor_survives(tensor):
        return False
    if tensor.data_type not in _PRINTED_AS_NUMBERS:
        return True
    array = onnx.numpy_helper.to_array(tensor)
    unusual = array[np.isnan(array)]
    return unusual.tobytes() == np.full(unusual.shape, np.nan, array.dtype).tobytes()


def _attribute_prints(attribute: onnx.AttributeProto) -> bool:
    if not _IDENTIFIER.fullmatch(attribute.name):
        return False
    if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
        return _prints(attribute.t)
    if attribute.type == AttributeProto.STRINGS and not attribute.strings:
        return bool(attribute.ref_attr_name)
    if attribute.type == AttributeProto.TENSORS:
        return False
    if not all(_is_utf8(text) for text in (attribute.s, *attribute.strings)):
        return False
    if _PRINTS_EXACTLY or attribute.type in _GRAPHS or attribute.ref_attr_name:
        return True
    return _attribute_survives(attribute)


def _tensor_survives(tensor: onnx.TensorProto) -> bool:
    graph = onnx.GraphProto(name="g", initializer=[onnx.TensorProto()])
    graph.initializer[0].CopyFrom(tensor)
    graph.initializer[0].name = "w"
    again = _again(graph)
    return again is not None and _bits(again.initializer[0]) == _bits(graph.initializer[0])


def _bits(tensor: onnx.TensorProto) -> tuple[object, list[int], int]:
    is_text = tensor.data_type == TensorProto.STRING
    data = list(tensor.string_data) if is_text else ir.TensorProtoTensor(tensor).tobytes()
    return data, list(tensor.dims), tensor.data_type


def _attribute_survives(attribute: onnx.AttributeProto) -> bool:
    node = onnx.NodeProto(op_type="N", output=["y"], attribute=[attribute])
    again = _again(onnx.GraphProto(name="g", node=[node]))
    return again is not None and again.node[0].attribute[0] == attribute


def _value_survives(value: onnx.ValueInfoProto) -> bool:
    bare = onnx.ValueInfoProto(name="x", type=value.type)
    again = _again(onnx.GraphProto(name="g", input=[bare]))
    return again is not None and again.input[0] == bare


def _again(graph: onnx.GraphProto) -> onnx.GraphProto | None:
    try:
        return onnx.parser.parse_graph(onnx.printer.to_text(graph))
    except (onnx.parser.ParseError, UnicodeError, LookupError):
        return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
