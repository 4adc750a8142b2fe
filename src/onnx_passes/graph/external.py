"""Weights in data files, or in a large model file: located, checked and mapped on loading."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.wire import tensor_nbytes

try:
    import resource
except ImportError:  # There is none on Windows.
    resource = None

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping


class DataFile:
    """A file with the data of tensors, mapped once for all of them.

    The mapping keeps the contents readable after the file is replaced, so that a model can be saved over the files
    from which it was loaded without harm to it or its clones. Writing to the file in place changes the data of the
    model, which is detected whenever they are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            self._status = _state(status)
            self.identity = (status.st_dev, status.st_ino, *self._status)
            self.size = status.st_size
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else b""
            # The file stays open, as its path may refer to another one later.
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)
        self.data = memoryview(mapped)
        self._mapped = mapped

    def release(self) -> None:
        """Release the memory of the mapped data, which are read again on demand."""
        if isinstance(self._mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)

    def offset_of(self, array: np.ndarray[Any, Any]) -> int:
        """Return the offset in the file of an array on the mapping."""
        return array.ctypes.data - np.frombuffer(self.data, np.uint8).ctypes.data

    def require_unchanged(self) -> None:
        """Raise ModelError if the file was written to since it was opened."""
        if _state(os.fstat(self.descriptor)) != self._status:
            raise ModelError(
                "the data file was changed while it was in use", where=str(self.path), hint="load the model again"
            )

    def read(self, start: int, length: int) -> bytes:
        """Read a few bytes, without read-ahead."""
        if not hasattr(os, "posix_fadvise"):
            return bytes(self.data[start : start + length])
        os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        try:
            return os.pread(self.descriptor, length, start)
        finally:
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_NORMAL)


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_size


class MappedTensor(ir.ExternalTensor):
    """A tensor in a data file, which takes no memory before it is read, and is not copied then."""

    __slots__ = ("_view", "file")

    def __init__(self, tensor: ir.ExternalTensor, folder: Path, file: DataFile) -> None:
        """Replace ``tensor`` of a model in ``folder``, whose data are in ``file``."""
        super().__init__(  # pyright: ignore[reportUnknownMemberType]
            _location(tensor),
            tensor.offset,
            tensor.length,
            tensor.dtype,
            shape=tensor.shape,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props) or None,
            base_dir=folder,
        )
        self.file = file
        self._view: np.ndarray[Any, Any] | None = None

    @property
    def place(self) -> tuple[object, ...]:
        """The position of the data: the current file, and the offset in it."""
        return (*self.file.identity, self.offset or 0)

    def require_unchanged(self) -> None:
        """Raise ModelError if the data file was written to since it was opened."""
        self.file.require_unchanged()

    @property
    def bytes(self) -> memoryview:
        """The packed little-endian data."""
        self.require_unchanged()
        start = self.offset or 0
        return self.file.data[start : start + self.nbytes]

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the data as a read-only array on the mapped file."""
        self.require_unchanged()
        if self._view is None:
            shape = tuple(self.shape.numpy())
            if self.dtype.bitwidth < 8:
                raw = np.frombuffer(self.bytes, np.uint8)
                self._view = ir.PackedTensor(raw, self.dtype, shape=shape).numpy()
            else:
                self._view = np.frombuffer(self.bytes, self.dtype.numpy().newbyteorder("<")).reshape(shape)
        return self._view

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the data for numpy."""
        return self.numpy().__array__(dtype)

    def tobytes(self) -> bytes:
        """Return a copy of the packed data."""
        return bytes(self.bytes)

    def tofile(self, file: Any) -> None:
        """Write the packed data to a file."""
        file.write(self.bytes)


class EmbeddedTensor(ir.Tensor[np.ndarray[Any, Any]]):
    """A tensor in the mapped file of its model, which takes no memory before it is read."""

    __slots__ = ("file",)

    def __init__(self, tensor: ir.Tensor[np.ndarray[Any, Any]], file: DataFile) -> None:
        """Replace ``tensor``, whose array is on the mapping of ``file``."""
        super().__init__(
            tensor.raw,
            tensor.dtype,
            name=tensor.name,
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props) or None,
        )
        self.file = file

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the data as a read-only array on the mapped file."""
        self.file.require_unchanged()
        return super().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the data for numpy."""
        return self.numpy().__array__(dtype)

    def __repr__(self) -> str:
        """Name the tensor without reading its data, which may have changed."""
        return f"EmbeddedTensor<{self.dtype},{self.shape}>(name={self.name!r}, path={str(self.file.path)!r})"


def file_of(tensor: ir.TensorProtocol) -> DataFile | None:
    """Return the mapped file with the data of a tensor; None if they are not mapped."""
    return tensor.file if isinstance(tensor, MappedTensor | EmbeddedTensor) else None


def require_unchanged(tensor: ir.TensorProtocol) -> None:
    """Raise ModelError if the data of a tensor are in a file that was written to since it was opened."""
    file = file_of(tensor)
    if file is not None:
        file.require_unchanged()


def release(tensor: ir.TensorProtocol) -> None:
    """Release the memory of mapped data of a tensor."""
    file = file_of(tensor)
    if file is not None:
        file.release()


def initializers(model: ir.Model) -> Iterator[ir.Value]:
    """Yield the initializers of the graph of a model, then those of all subgraphs."""
    functions = model.functions.values()
    for graph in (*model.graphs(), *(sub for function in functions for sub in function.subgraphs())):
        yield from graph.initializers.values()


def map_external_data(model: ir.Model, folder: Path, where: str) -> bool:
    """Check and map every external tensor of a model; return whether there are any.

    Data files must lie inside ``folder``. Raises ModelError if one is missing, lies elsewhere or is too short.
    """
    files: dict[str, DataFile] = {}
    for value in initializers(model):
        if isinstance(value.const_value, ir.ExternalTensor):
            value.const_value = _mapped(value.const_value, folder, files, where)
    for node, attribute in _tensor_attributes(model):
        tensors = attribute.as_tensors() if attribute.type is ir.AttributeType.TENSORS else [attribute.as_tensor()]
        if not any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors):
            continue
        # Only initializers can be written to a data file again; attributes therefore hold their data.
        loaded = [
            _in_memory(_mapped(t, folder, files, where)) if isinstance(t, ir.ExternalTensor) else t for t in tensors
        ]
        value = loaded[0] if attribute.type is ir.AttributeType.TENSOR else loaded
        node.attributes.add(ir.Attr(attribute.name, attribute.type, value, doc_string=attribute.doc_string))
    return bool(files)


def locations(model: ir.Model) -> set[str]:
    """Return the names of the data files of unmapped tensors."""
    found = [value.const_value for value in initializers(model)]
    for _, attribute in _tensor_attributes(model):
        is_list = attribute.type is ir.AttributeType.TENSORS
        found.extend(attribute.as_tensors() if is_list else [attribute.as_tensor()])
    return {_location(tensor) for tensor in found if isinstance(tensor, ir.ExternalTensor)}


def _tensor_attributes(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Attr]]:
    for scope in (model.graph, *model.functions.values()):
        for node in scope.all_nodes():
            for attribute in node.attributes.values():
                if attribute.type in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS) and not attribute.is_ref():
                    yield node, attribute


def _location(tensor: ir.ExternalTensor) -> str:
    return os.fspath(cast("str | os.PathLike[str]", tensor.location))  # pyright: ignore[reportUnknownMemberType]


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    return ir.Tensor(tensor.numpy().copy(), tensor.dtype, name=tensor.name, doc_string=tensor.doc_string)


def _mapped(tensor: ir.ExternalTensor, folder: Path, files: dict[str, DataFile], where: str) -> MappedTensor:
    location = _location(tensor)
    if location not in files:
        files[location] = _open(location, folder, tensor.name, where)
    file = files[location]
    start, needed = tensor.offset or 0, tensor_nbytes(tensor.dtype, tuple(tensor.shape.numpy()))
    length = needed if tensor.length is None else tensor.length
    if length < needed:
        raise ModelError(
            f"the data of tensor '{tensor.name}' have {length} bytes, but its shape needs {needed}", where=where
        )
    if start < 0 or start + needed > file.size:
        raise ModelError(
            f"data file '{location}' ends at byte {file.size}, but tensor '{tensor.name}' lies at bytes"
            f" {start} to {start + needed}",
            where=where,
            hint="the data file is truncated or belongs to another model",
        )
    return MappedTensor(tensor, folder, file)


def _map(path: Path) -> DataFile:
    """Map a data file; a model may have more of them than a process may usually open."""
    try:
        return DataFile(path)
    except OSError as error:
        if error.errno != errno.EMFILE or resource is None:
            raise
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            raise
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return DataFile(path)


def _open(location: str, folder: Path, name: str, where: str) -> DataFile:
    if "\0" in location:
        raise ModelError(f"tensor '{name}' names a data file with a NUL in it", where=where, hint="the file is corrupt")
    path = folder / location
    inside = Path(os.path.normpath(path))
    outside = f"tensor '{name}' has its data in '{location}', outside the folder of the model"
    hint = "put the data file beside the model"
    if not location or Path(location).is_absolute() or not inside.is_relative_to(os.path.normpath(folder)):
        raise ModelError(outside, where=where, hint=hint)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise ModelError(f"{outside} by a symbolic link", where=where, hint=hint)
    try:
        status = real.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise ModelError(
                f"data file '{location}' is not a regular file", where=where, hint="put a copy in its place"
            )
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            raise ModelError(
                f"data file '{location}' has several hard links", where=where, hint="put a copy beside the model"
            )
        return _map(real)
    except FileNotFoundError:
        raise ModelError(
            f"data file '{location}' with tensor '{name}' is missing from '{folder}'",
            where=where,
            hint="keep the data file in the folder of the model",
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        many = isinstance(error, OSError) and error.errno == errno.EMFILE
        hint = "the model has more data files than may be open: raise 'ulimit -n'" if many else None
        raise ModelError(f"data file '{location}' cannot be read ({reason})", where=where, hint=hint) from error


def stub(tensor: ir.TensorProtocol, name: str, location: str, offset: int) -> ir.ExternalTensor:
    """Return a tensor that serialises as a reference to ``location``, without the data."""
    return ir.ExternalTensor(
        location,
        offset,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tuple(tensor.shape.numpy())),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props) or None,
    )


@contextmanager
def standing_in(tensors: Mapping[ir.Value, ir.TensorProtocol]) -> Generator[None]:
    """Replace the tensors of values within a block."""
    held = {value: value.const_value for value in tensors}
    try:
        for value, tensor in tensors.items():
            value.const_value = tensor
        yield
    finally:
        for value, tensor in held.items():
            value.const_value = tensor
