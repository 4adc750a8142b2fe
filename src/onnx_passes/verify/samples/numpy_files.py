"""Arrays to and from ``.npy`` and ``.npz`` files, and arrays of which rows are read when they are asked for.

Whatever is wrong with a file of unknown origin is a sentence.
"""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.atomic import replacing
from onnx_passes.verify.run.resources import current_resources

Array = np.ndarray[Any, np.dtype[Any]]

_SUSPICIOUS_SIZE, _SUSPICIOUS_RATIO = 2**30, 200
"""An archive that unpacks to so many bytes, and so many times its own size, was made to fill the memory."""


def read_numpy(path: Path) -> Array | dict[str, Array]:
    """Read an array, or those of an archive by name. Raises UsageError."""
    try:
        # Opened here, since numpy leaves a broken archive open.
        with path.open("rb") as file:
            return read_open_numpy(file, str(path))
    except OSError as error:
        raise UsageError(_unreadable(error), where=str(path)) from error


def read_open_numpy(file: BinaryIO, where: str) -> Array | dict[str, Array]:
    """Read what an open file holds. Raises UsageError."""
    with reading(where):
        if zipfile.is_zipfile(file):
            _require_sane(file, where)
        file.seek(0)
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return cast("Array", content)
        arrays = {name: cast("Array | bytes", content[name]) for name in content.files}
    for name, data in arrays.items():
        if not isinstance(data, np.ndarray):
            raise UsageError(f"the entry '{name}' is not an array", where=where)
    return cast("dict[str, Array]", arrays)


def map_numpy(path: Path) -> Array:
    """Map the array of a ``.npy`` file, which stays on the disk until it is used. Raises UsageError."""
    with reading(str(path)):
        return cast("Array", np.load(path, mmap_mode="r", allow_pickle=False))


@contextlib.contextmanager
def reading(where: str) -> Generator[None]:
    """Say of what cannot be read where it is and why, as UsageError."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(_unreadable(error), where=where) from error


def write_numpy(path: Path, arrays: Mapping[str, Array], *, packed: bool = False) -> None:
    """Write arrays under any name; ``numpy.savez`` takes some for its own arguments. Raises UsageError."""
    try:
        with replacing(path) as file:
            archive_numpy(file, arrays, packed=packed)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(path)) from error


def archive_numpy(file: BinaryIO, arrays: Mapping[str, Array], *, packed: bool = False) -> None:
    """Write arrays to an open file."""
    compression = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _unreadable(error: Exception) -> str:
    """Say why a file cannot be read: its header is Python text, and may raise whatever parsing and arithmetic raise."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"the file cannot be read ({error.strerror})"
    return f"this is not a readable numpy file ({first_line(error)})"


def first_line(error: Exception) -> str:
    """Return the first line of a message, or the name of an error that has none."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _require_sane(file: BinaryIO, where: str) -> None:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
        packed = sum(entry.compress_size for entry in archive.infolist())
    if unpacked > _SUSPICIOUS_SIZE and unpacked > _SUSPICIOUS_RATIO * packed:
        raise UsageError(
            f"{packed} bytes that unpack to {unpacked} look like an attack on the memory",
            where=where,
            hint="store the arrays as .npy, or without compression",
        )


@dataclass(frozen=True)
class LazyArray:
    """An array of known shape and type, of which ``read`` returns the rows from one number to another.

    ``is_flat`` says that a row is a list of numbers because a table has no other form, whatever shape they are of;
    ``where`` is the file that it is in.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], Array]
    is_flat: bool = False
    where: str | None = None

    @property
    def ndim(self) -> int:
        """Count the dimensions."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(len(self))
        stop = max(start, stop)
        self._require_room(stop - start)
        return self.read(start, stop)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        return self[:]

    def _require_room(self, rows: int) -> None:
        """Raise UsageError if so many rows would take more memory than a model may."""
        size, most = rows * math.prod(self.shape[1:]) * self.dtype.itemsize, current_resources().memory
        if size > most:
            raise UsageError(
                f"{rows} rows of shape {list(self.shape[1:])} take {size / 2**30:.3g} GiB at once, "
                f"more than the {most / 2**30:.3g} GiB of --memory-limit",
                where=self.where,
                hint="--dataset with a small --batch reads rows as it needs them",
            )

    def part(self, start: int, stop: int) -> LazyArray:
        """Return some of the rows, still unread."""

        def read(a: int, b: int) -> Array:
            return self.read(start + a, start + b)

        return replace(self, shape=(stop - start, *self.shape[1:]), read=read)

    def converted(self, convert: Callable[[Array], Array], dtype: np.dtype[Any]) -> LazyArray:
        """Return the same in another type; rows are converted when they are read."""

        def read(a: int, b: int) -> Array:
            return convert(self.read(a, b))

        return replace(self, dtype=dtype, read=read)

    def shaped(self, row: Sequence[int]) -> LazyArray:
        """Return the same with rows of another shape."""

        def read(a: int, b: int) -> Array:
            return self.read(a, b).reshape(b - a, *row)

        return replace(self, shape=(len(self), *row), read=read, is_flat=False)

    def holds(self, row: Sequence[object]) -> bool:
        """Return whether the list of numbers in each row is an array of this shape."""
        sizes = [size for size in row if isinstance(size, int)]
        return self.is_flat and len(sizes) == len(row) and math.prod(sizes) == math.prod(self.shape[1:])
