"""Lay out and write the data file of a model; data in existing files are copied by the system, or shared."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.external import MappedTensor, initializers, release, stub
from onnx_passes.graph.wire import tensor_data

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALIGNMENT = 64
_PAGE = 4096
"""Block size of file systems, which can share aligned blocks."""
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV, errno.EBADF, errno.ETXTBSY}
"""Errors of systems that cannot copy between these files."""


@dataclasses.dataclass
class DataLayout:
    """Positions of tensors in one data file; a tensor used twice is stored once.

    With ``sharing``, the folder of the model, tensors in data files there stay in place, and only others are
    written.
    """

    location: str
    sharing: Path | None = None
    size: int = 0
    shared: set[str] = dataclasses.field(default_factory=set[str])
    _places: dict[int, tuple[int, ir.TensorProtocol]] = dataclasses.field(
        default_factory=dict[int, tuple[int, ir.TensorProtocol]]
    )

    def place(self, tensor: ir.TensorProtocol, name: str) -> ir.ExternalTensor:
        """Reserve space for a tensor; return its reference in the model."""
        if self.sharing is not None and isinstance(tensor, MappedTensor):
            location = _location(tensor, self.sharing)
            if location is None:
                raise ModelError(
                    f"data file '{tensor.file.path}' lies outside the folder of the model, which cannot share it",
                    where=str(self.sharing),
                    hint="write the model to the folder of its data file, or without sharing",
                )
            tensor.require_unchanged()
            self.shared.add(location)
            return stub(tensor, name, location, tensor.offset or 0)
        if id(tensor) not in self._places:
            start = self._next(tensor)
            self._places[id(tensor)] = start, tensor
            self.size = start + tensor.nbytes
        return stub(tensor, name, self.location, self._places[id(tensor)][0])

    def _next(self, tensor: ir.TensorProtocol) -> int:
        offset = tensor.offset or 0 if isinstance(tensor, MappedTensor) else None
        if offset is None or offset % _ALIGNMENT or tensor.nbytes < _PAGE:
            return -(-self.size // _ALIGNMENT) * _ALIGNMENT
        return self.size + (offset - self.size) % _PAGE

    def write(self, file: BinaryIO) -> None:
        """Write the data file, one tensor in memory at a time; data in files are copied from there."""
        for start, tensor in self._places.values():
            if not isinstance(tensor, MappedTensor):
                file.seek(start)
                file.write(tensor_data(tensor))
                release(tensor)
                continue
            file.flush()
            if not _copied(tensor, file.fileno(), start):
                file.seek(start)
                file.write(tensor.bytes)
                release(tensor)
            tensor.require_unchanged()
        file.truncate(self.size)


def require_shareable(model: ir.Model, folder: Path) -> None:
    """Raise ModelError if a model in this folder could not refer to the data files of its weights."""
    layout = DataLayout("", sharing=folder)
    for value in initializers(model):
        if isinstance(value.const_value, MappedTensor):
            layout.place(value.const_value, "")


def _location(tensor: MappedTensor, folder: Path) -> str | None:
    """Return the relative path from a folder to the data file of a tensor; None if it is outside."""
    try:
        return tensor.file.path.relative_to(os.path.realpath(folder)).as_posix()
    except ValueError:
        return None


def _copied(tensor: MappedTensor, target: int, start: int) -> bool:
    """Copy the data of a tensor between files by the system; return whether that was possible."""
    if not hasattr(os, "copy_file_range"):
        return False
    source, begin = tensor.file.descriptor, tensor.offset or 0
    try:
        for at, end in _written(source, begin, begin + tensor.nbytes):
            while at < end:
                done = os.copy_file_range(source, target, end - at, at, start + at - begin)
                if not done:
                    return False
                at += done  # noqa: PLW2901
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    return True


def _written(file: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of data between the holes of a sparse file."""
    while start < end:
        try:
            start = os.lseek(file, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        if start >= end:
            return
        stop = min(os.lseek(file, start, os.SEEK_HOLE), end)
        yield start, stop
        start = stop
