"""Save models: atomically, with large weights streamed to the file or to a data file next to it."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TextIO, cast

import onnx
import onnx.serialization
import onnx_ir as ir
from google.protobuf.message import EncodeError

from onnx_passes.core.errors import ModelError, did_you_mean
from onnx_passes.graph.atomic import creating, finish, is_special, replacing
from onnx_passes.graph.data_files import free_data_file, outdated_data_files, remove_unnamed
from onnx_passes.graph.data_layout import DataLayout
from onnx_passes.graph.external import initializers, release, stub
from onnx_passes.graph.origin import FORMATS, origin
from onnx_passes.graph.serialise import serialise
from onnx_passes.graph.text import to_text
from onnx_passes.graph.wire import BIG, PROTOBUF_LIMIT, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["INLINE_LIMIT", "External", "SaveReport", "Target", "save"]

Target = str | os.PathLike[str] | BinaryIO | TextIO
External = bool | Literal["shared"] | None
"""Whether weights go to a data file: yes, no, as in the loaded model (None), or likewise without a copy ("shared")."""

INLINE_LIMIT = 1024
"""Tensors up to this number of bytes stay in the model even if others go to a data file."""

_REASONS = {
    errno.ENOENT: ("the folder does not exist", "create it first"),
    errno.ENOTDIR: ("the folder does not exist", "create it first"),
    errno.EISDIR: ("this is a folder", "name a file in it"),
    errno.EACCES: ("permission to write here is denied", "choose another place"),
    errno.EPERM: ("permission to write here is denied", "choose another place"),
    errno.EROFS: ("this place is read-only", "choose another place"),
    errno.ENOSPC: ("the disk is full", "make room or choose another place"),
    errno.EDQUOT: ("the disk quota is used up", "make room or choose another place"),
    errno.EFBIG: ("the file would be larger than allowed", "choose another place"),
}


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """The path, format and size of the written files, and remarks on losses of the format."""

    path: Path | None
    format: str
    nbytes: int
    data: Path | None = None
    notes: tuple[str, ...] = ()


def save(
    model: ir.Model,
    target: Target,
    *,
    external: External = None,
    format: str | None = None,  # noqa: A002 - the word that onnx.save uses
) -> SaveReport:
    """Save a model to a path, to standard output (``-``, as text by default) or to an open file.

    The format follows from ``format``, else from the suffix. Weights go to a data file, named like the model with
    ``.data`` appended, if ``external`` requires it, if they came from one, or if the model exceeds the limit of
    protobuf. If there is such a file, the new one gets another name, so that the existing model has its own weights at
    any time; unused files are removed. The model file is replaced only when everything is written, even if it is the
    loaded one. Raises ModelError, and keeps the existing files, if the model cannot be written.

    With ``external="shared"`` weights in a data file stay there, and both models refer to it: nothing is copied, but
    both models need that file from then on. It must be in the folder of the new model, or below.
    """
    if isinstance(target, str | os.PathLike) and target != "-":
        path = Path(target)
        format_ = _format(format, path.suffix)
        return _save_path(model, path, format_, external)
    if isinstance(target, str | os.PathLike):
        return _save_stream(model, sys.stdout.buffer, "standard output", _format(format or "text", ""), external)
    is_text = isinstance(target, io.TextIOBase)
    format_ = _format(format or ("text" if is_text else None), "")
    if not is_text:
        return _save_stream(model, cast("BinaryIO", target), _name(target), format_, external)
    if format_ == "binary":
        raise ModelError("a binary model cannot go to a text file", where=_name(target), hint="open it as binary")
    buffer, file = io.BytesIO(), cast("TextIO", target)
    report = _save_stream(model, buffer, _name(target), format_, external)
    _written(file, lambda: file.write(buffer.getvalue().decode()), _name(target))
    return report


def to_proto(model: ir.Model, where: str = "ModelProto") -> onnx.ModelProto:
    """Return a model as a new message with all weights. Raises ModelError if that is impossible."""
    return serialise(model, lambda _, tensor: _in_memory(tensor), where)


def _format(asked: str | None, suffix: str) -> str:
    if asked is None:
        return FORMATS.get(suffix.lower(), "binary")
    known = sorted(set(FORMATS.values()))
    if asked not in known:
        hint = did_you_mean(asked, known) or f"known are {', '.join(known)}"
        raise ModelError(f"there is no format '{asked}'", hint=hint)
    return asked


def _name(file: object) -> str:
    return str(getattr(file, "name", "file"))


def _save_path(model: ir.Model, path: Path, format_: str, external: External) -> SaveReport:
    if is_special(path):
        with _errors(str(path)), path.open("wb") as file:
            return _save_stream(model, file, str(path), format_, external)
    if format_ != "binary":
        if external:
            raise ModelError(f"the {format_} format holds its weights itself", where=str(path), hint="save as .onnx")
        content, notes = _rendered(model, format_, str(path))
        with _errors(str(path)), replacing(path) as file:
            file.write(content)
        return SaveReport(path, format_, len(content), notes=notes)
    data, outdated = free_data_file(path), outdated_data_files(path)
    sharing = path.parent if external == "shared" else None
    layout = DataLayout(data.name, sharing) if _wants_data_file(model, external) else None
    stream = _stream(model, layout, str(path))
    if stream.nbytes > PROTOBUF_LIMIT and external is not False and layout is None:
        layout = DataLayout(data.name)
        stream = _stream(model, layout, str(path))
    _require_fitting(stream, str(path))
    notes = tuple(f"weights stay in '{name}'" for name in sorted(layout.shared)) if layout is not None else ()
    if layout is None or not layout.size:
        with _errors(str(path)), replacing(path) as file:
            stream.write(file, release)
        remove_unnamed(outdated, FORMATS)
        return SaveReport(path, format_, stream.nbytes, notes=notes)
    with _errors(str(path)), creating(data, like=path) as data_file, replacing(path) as file:
        layout.write(data_file)
        finish(data_file)
        stream.write(file, release)
    remove_unnamed(outdated, FORMATS)
    return SaveReport(path, format_, stream.nbytes + layout.size, data=data, notes=notes)


def _save_stream(model: ir.Model, file: BinaryIO, name: str, format_: str, external: External) -> SaveReport:
    if external:
        raise ModelError("a data file needs a model file beside it", where=name, hint="save to a path")
    if format_ == "binary":
        stream = _stream(model, None, name)
        _require_fitting(stream, name)
        _written(file, lambda: stream.write(file, release), name)
        return SaveReport(None, format_, stream.nbytes)
    content, notes = _rendered(model, format_, name)
    _written(file, lambda: file.write(content), name)
    return SaveReport(None, format_, len(content), notes=notes)


def _written(file: BinaryIO | TextIO, write: Callable[[], object], name: str) -> None:
    """Write immediately, so that errors occur here and not when the file is closed."""
    with _errors(name):
        write()
        file.flush()


@contextlib.contextmanager
def _errors(where: str) -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        what, hint = _REASONS.get(error.errno or 0, (f"writing failed ({error.strerror or error})", None))
        raise ModelError(what, where=where, hint=hint) from error


def _wants_data_file(model: ir.Model, external: External) -> bool:
    if isinstance(external, bool):
        return external
    source = origin(model)
    if source is not None and source.external:
        return True
    return any(isinstance(value.const_value, ir.ExternalTensor) for value in initializers(model))


def _require_fitting(stream: Stream, where: str) -> None:
    if stream.nbytes > PROTOBUF_LIMIT:
        raise ModelError(
            f"the model takes {stream.nbytes} bytes, more than the {PROTOBUF_LIMIT} of a single file",
            where=where,
            hint="save it to a path with its weights in a data file",
        )


def _stream(model: ir.Model, layout: DataLayout | None, where: str) -> Stream:
    """Serialise a model without its large weights, which are written to the file or a data file later."""
    weights: dict[int, ir.TensorProtocol] = {}
    position = {id(value): index for index, value in enumerate(model.graph.initializers.values())}

    def stand_in(value: ir.Value, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
        is_text = tensor.dtype == ir.DataType.STRING
        if layout is not None and not is_text and tensor.nbytes > INLINE_LIMIT:
            return layout.place(tensor, value.name or "")
        if id(value) in position and not is_text and tensor.nbytes >= BIG:
            weights[position[id(value)]] = tensor
            return stub(tensor, value.name or "", "", 0)
        return _in_memory(tensor)

    try:
        return Stream(serialise(model, stand_in, where), weights)
    except EncodeError as error:
        raise ModelError(
            "constants inside the graph exceed what a single file can hold",
            where=where,
            hint="make them initializers (pass lift-constants)",
        ) from error


def _rendered(model: ir.Model, format_: str, where: str) -> tuple[bytes, tuple[str, ...]]:
    proto = to_proto(model, where)
    if format_ == "text":
        text, notes = to_text(proto)
        return text.encode(), tuple(notes)
    content = onnx.serialization.registry.get(format_).serialize_proto(proto)
    return (content.encode() if isinstance(content, str) else content), ()


def _in_memory(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return the tensor in memory, so that it is not written as a reference to another model's file."""
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    props = dict(tensor.metadata_props) or None
    return ir.Tensor(tensor.numpy(), tensor.dtype, name=tensor.name, doc_string=tensor.doc_string, metadata_props=props)
