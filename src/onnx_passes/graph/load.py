"""Load models from files, standard input, bytes or protos, with clear errors and recorded repairs."""

from __future__ import annotations

import mmap
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import numpy as np
import onnx
import onnx.serialization
import onnx_ir as ir
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from onnx_passes.core.collector import paused_collector
from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.external import DataFile, EmbeddedTensor, map_external_data
from onnx_passes.graph.map_types import set_aside
from onnx_passes.graph.origin import FORMATS, Origin, origin, set_origin
from onnx_passes.graph.repair import repair, sort
from onnx_passes.graph.text import from_text
from onnx_passes.graph.wellformed import inspect
from onnx_passes.graph.wire import Weight, copy_model, read_weight, split

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FORMATS", "Source", "load", "origin", "root_cause"]


class Exported(Protocol):
    """The result of an exporter, such as ``torch.onnx.ONNXProgram``."""

    @property
    def model(self) -> ir.Model:
        """Return the model."""
        ...

    @property
    def model_proto(self) -> onnx.ModelProto:
        """Return the model as a message."""
        ...


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO | onnx.ModelProto | ir.Model | Exported

_STAYS_IN_FILE = 2**28
"""In larger model files, large weights are mapped: the file must not be written to while the model is in use."""
_BIG = 2**16
_OTHERS = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive, as PyTorch writes",
    b"\x1f\x8b": "compressed with gzip",
    b"\x89HDF": "an HDF5 file, as Keras writes",
    b"\x93NUMPY": "a NumPy array",
    b"version https://git-lfs": "a Git LFS pointer and not the model itself: run `git lfs pull`",
    b"<!DOCTYPE": "a web page",
    b"<html": "a web page",
}


def load(source: Source) -> ir.Model:
    """Load a model; large weights are read once or, if they are in data files, only mapped.

    ``source`` is a path, ``-`` for standard input, bytes, an open binary file, an ``onnx.ModelProto``, which is
    copied, or an ``ir.Model`` or ``torch.onnx.ONNXProgram``, whose model is returned unchanged. Binary, ONNX text, JSON
    and protobuf text are distinguished by suffix and content. ``origin(model).repairs`` lists the repairs. Raises
    ModelError.
    """
    if isinstance(source, ir.Model):
        return source
    held = getattr(source, "model", None)
    if isinstance(held, ir.Model):
        return held
    with paused_collector():
        if isinstance(source, onnx.ModelProto):
            return _import(*copy_model(source), None, "ModelProto", "binary")
        if isinstance(source, bytes | bytearray | memoryview):
            return _from_bytes(memoryview(source).cast("B"), None, "bytes")
        if isinstance(source, str) and source == "-":
            return _from_bytes(memoryview(sys.stdin.buffer.read()), None, "standard input")
        if isinstance(source, str | os.PathLike):
            return _from_path(Path(source))
        if hasattr(source, "read"):
            return _from_file(cast("BinaryIO", source))
        if isinstance(proto := getattr(source, "model_proto", None), onnx.ModelProto):
            return load(proto)
    raise ModelError(f"{type(source).__name__} is not a model", hint="give a path, bytes, a ModelProto or an ir.Model")


def _from_file(file: BinaryIO) -> ir.Model:
    name = getattr(file, "name", None)
    path = Path(name) if isinstance(name, str) and Path(name).is_file() else None
    data = cast("bytes | str", file.read())
    if isinstance(data, str):
        raise ModelError("the file is open as text", where=str(name or "file"), hint="open it in binary mode")
    return _from_bytes(memoryview(data), path, str(path or "file"))


def _from_path(path: Path) -> ir.Model:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            mappable = stat.S_ISREG(status.st_mode) and status.st_size > 0
            mapped = DataFile(path) if mappable and status.st_size > _STAYS_IN_FILE else None
            if mapped is not None:
                data = mapped.data
            else:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if mappable else file.read()
    except FileNotFoundError:
        raise ModelError("there is no such file", where=str(path), hint=_neighbours(path)) from None
    except IsADirectoryError:
        raise ModelError("this is a folder", where=str(path), hint="name a model file in it") from None
    except PermissionError as error:
        raise ModelError("permission to read the file is denied", where=str(path)) from error
    except OSError as error:
        raise ModelError(f"the file cannot be read ({error.strerror})", where=str(path)) from error
    return _from_bytes(memoryview(data), path, str(path), mapped)


def _neighbours(path: Path) -> str | None:
    try:
        models = sorted(entry.name for entry in path.parent.iterdir() if entry.suffix in FORMATS)
    except OSError:
        return f"the folder '{path.parent}' does not exist"
    return f"the folder has {', '.join(models[:5])}{' …' if len(models) > 5 else ''}" if models else None


def _from_bytes(data: memoryview, path: Path | None, where: str, mapped: DataFile | None = None) -> ir.Model:
    head = bytes(data[:512]).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head and not bytes(data).strip():
        raise ModelError("the file is empty", where=where)
    for signature, kind in _OTHERS.items():
        if head.startswith(signature):
            raise ModelError(f"this is not an ONNX model but {kind}", where=where)
    format_ = _format(path, head)
    if format_ != "binary":
        return _import(_parse_text(_decode(data, where), format_, where), {}, path, where, format_)
    skeleton, found = split(data)
    proto = _parse_binary(skeleton, where)
    weights = {w.position: _weight(data, w, proto.graph.initializer[w.position], mapped) for w in found}
    if mapped is not None:
        mapped.release()
    return _import(proto, weights, path, where, format_)


def _weight(
    data: memoryview, weight: Weight, header: onnx.TensorProto, mapped: DataFile | None
) -> ir.TensorProtocol | None:
    """Copy a weight, unless it stays in the model file."""
    if mapped is None or weight.end - weight.start < _BIG:
        return read_weight(data, weight, header)
    tensor = read_weight(data, weight, header, copy=False)
    if not isinstance(tensor, ir.Tensor):
        return read_weight(data, weight, header)
    return EmbeddedTensor(cast("ir.Tensor[np.ndarray]", tensor), mapped)


def _format(path: Path | None, head: bytes) -> str:
    by_name = FORMATS.get(path.suffix.lower(), "binary") if path is not None else "binary"
    if by_name != "binary":
        return by_name
    # No serialised model begins with these bytes: they would be the start or end of a group, or a wrong type.
    for start, format_ in ((b"<", "text"), (b"{", "json"), (b"ir_version:", "textproto")):
        if head.startswith(start):
            return format_
    return "binary"


def _decode(data: memoryview, where: str) -> str:
    try:
        return bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(
            f"this is not text: byte {error.start} is not UTF-8", where=where, hint="name a binary model .onnx"
        ) from error


def _parse_binary(data: bytes | memoryview, where: str) -> onnx.ModelProto:
    try:
        return onnx.ModelProto.FromString(data if isinstance(data, bytes) else bytes(data))
    except DecodeError as error:
        raise ModelError(
            "this is not an ONNX model, or a damaged one", where=where, hint="was the file copied completely?"
        ) from error


def _parse_text(text: str, format_: str, where: str) -> onnx.ModelProto:
    if format_ == "text":
        return from_text(text, where)
    try:
        serializer = onnx.serialization.registry.get(format_)
        return serializer.deserialize_proto(text.encode(), onnx.ModelProto())
    except (json_format.ParseError, text_format.ParseError, ValueError) as error:
        raise ModelError(f"this is not a model in {format_} format: {error}", where=where) from error


def _require_model(proto: onnx.ModelProto, where: str) -> None:
    """Refuse bytes that are not a model, although protobuf parses almost any bytes as some message."""
    graph = proto.graph
    if not proto.HasField("graph") or not (graph.node or graph.output or graph.input):
        raise ModelError("this is not an ONNX model: it has no graph", where=where)
    if not 0 < proto.ir_version < 1000:
        raise ModelError(
            "this is not an ONNX model: it has no IR version",
            where=where,
            hint='a text begins with <ir_version: 10, opset_import: ["" : 21]>',
        )


def _import(
    proto: onnx.ModelProto,
    weights: Mapping[int, ir.TensorProtocol | None],
    path: Path | None,
    where: str,
    format_: str,
) -> ir.Model:
    """Convert an exclusively owned proto to the IR; ``weights`` are the tensors that it lacks."""
    _require_model(proto, where)
    try:
        findings = inspect(proto, where, without_data=weights.keys())
        repairs = repair(proto, findings, where)
        tensors = {proto.graph.initializer[position].name: tensor for position, tensor in weights.items()}
        unfit = next((name for name, tensor in tensors.items() if tensor is None), None)
        if unfit is not None:
            what = f"the data of initializer '{unfit}' do not fit its type and shape"
            raise ModelError(what, where=where, hint="the file is corrupt")
        set_aside(proto)
        model = ir.from_proto(proto)
    except (ir.serde.SerdeError, TypeError, ValueError) as error:
        raise ModelError(f"the model cannot be represented: {root_cause(error)}", where=where) from error
    for name, tensor in tensors.items():
        model.graph.initializers[name].const_value = tensor
    for graph in (model.graph, *all_graphs(model.graph)):
        _decode_small(graph)
    if findings.unsorted:
        repairs += sort(model, where)
    folder = (path.parent if path is not None else Path()).absolute()
    external = findings.external and map_external_data(model, folder, where)
    set_origin(model, Origin(path=path, format=format_, external=external, repairs=tuple(repairs)))
    return model


def _decode_small(graph: ir.Graph) -> None:
    """Replace tensors of the message by arrays, as they decode type, shape and elements on every access."""
    for value in graph.initializers.values():
        tensor = value.const_value
        if not isinstance(tensor, ir.TensorProtoTensor) or not tensor.raw.HasField("raw_data"):
            continue
        if tensor.dtype.bitwidth >= 8 and tensor.dtype is not ir.DataType.STRING:
            value.const_value = ir.Tensor(
                tensor.numpy(),
                tensor.dtype,
                name=tensor.name,
                doc_string=tensor.doc_string,
                metadata_props=dict(tensor.metadata_props) or None,
            )


def root_cause(error: BaseException) -> str:
    """Return the first sentence of the innermost error of onnx_ir."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return " ".join(str(error).split(". ")[0].rstrip(".").split())
