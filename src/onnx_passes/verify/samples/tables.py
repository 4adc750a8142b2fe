"""Columns of Parquet and Arrow files as arrays, and stamps that tell when a source has changed."""

from __future__ import annotations

import hashlib
import importlib
import os
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.samples.numpy_files import Array, LazyArray, first_line


def open_table(text: str) -> dict[str, Array | LazyArray]:
    """Open the columns of a table; what is read are the groups of rows that hold those asked for."""
    stamp = stamp_of(text)
    table = _table(text, stamp)
    found: dict[str, Array | LazyArray] = {}
    for field in table.schema:
        shape, dtype, is_flat = _row(field, text)
        found[field.name] = LazyArray(
            (table.ends[-1], *shape),
            dtype,
            lambda start, stop, name=field.name, shape=shape: _rows(text, stamp, name, shape, start, stop),
            is_flat,
        )
    return found


class _Table:
    """A file of groups of rows, each of which is read as a whole."""

    def __init__(self, text: str) -> None:
        arrow = _arrow(text)
        file = open_remote(text) if is_remote(text) else text
        if text.lower().endswith(".parquet"):
            self._file: Any = arrow("pyarrow.parquet").ParquetFile(file)
            self.schema: Any = self._file.schema_arrow
            counts = [self._file.metadata.row_group(n).num_rows for n in range(self._file.num_row_groups)]
            self._read: Any = self._file.read_row_group
        else:
            self._file = arrow("pyarrow").ipc.open_file(file)
            self.schema = self._file.schema
            counts = [self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches)]
            self._read = self._file.get_batch
        self.ends = list(accumulate(counts, initial=0))
        self._last: tuple[int, Any] = (-1, None)

    def group(self, number: int) -> Any:
        """Read a group of rows, or return it again."""
        if self._last[0] != number:
            self._last = number, self._read(number)
        return self._last[1]


@lru_cache(maxsize=2)
def _table(text: str, stamp: Stamp) -> _Table:
    try:
        return _Table(text)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"this is not a readable table ({first_line(error)})", where=text) from error


def _rows(text: str, stamp: Stamp, name: str, shape: tuple[int, ...], start: int, stop: int) -> Array:
    table = _table(text, stamp)
    parts: list[Array] = []
    while start < stop:
        number = bisect_right(table.ends, start) - 1
        first, end = table.ends[number], min(stop, table.ends[number + 1])
        column = table.group(number).column(name).slice(start - first, end - start)
        parts.append(_array(column, (end - start, *shape), f"{text}#{name}"))
        start = end
    return np.concatenate(parts) if parts else np.empty((0, *shape))


def _array(column: Any, shape: tuple[int, ...], where: str) -> Array:
    if column.null_count:
        raise UsageError("some rows are empty", where=where, hint="fill or leave them out")
    chunk = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    storage = getattr(chunk, "storage", chunk)
    values = storage.flatten() if hasattr(storage, "flatten") else storage
    return cast("Array", values.to_numpy(zero_copy_only=False)).reshape(shape)


def _row(field: Any, text: str) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return the shape and type of one row of a column, and whether its shape is that of a list."""
    kind = field.type
    tensor = getattr(kind, "shape", None)
    storage = getattr(kind, "storage_type", kind)
    size = getattr(storage, "list_size", None)
    scalar = storage if size is None else storage.value_type
    try:
        # Types that know their counterpart in numpy ask pandas for it, which need not be there.
        empty: Any = importlib.import_module("pyarrow").array([], type=scalar)
        dtype = np.dtype(empty.to_numpy(zero_copy_only=False).dtype)
    except (NotImplementedError, TypeError, AttributeError):
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise UsageError(
            f"the column '{field.name}' holds {kind}",
            where=text,
            hint="give numbers, lists of a fixed size (FixedSizeList) or tensors of a fixed shape",
        )
    if tensor is not None:
        return tuple(tensor), dtype, False
    return (() if size is None else (size,)), dtype, size is not None


def _arrow(text: str) -> Any:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError("pyarrow is not installed", where=text, hint="pip install 'onnx-passes[data]'") from None
    return importlib.import_module


_DIGESTS = ("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "Digest")
"""Keys under which file systems say what a file holds; times of the last change do not, since they count seconds."""
_BLOCK = 16 * 2**20


@dataclass(frozen=True)
class Stamp:
    """What tells data from others of their name; ``content`` is the same wherever it is asked for.

    ``here`` is what only this machine can compare: times to the nanosecond and inodes. Without content, nothing is
    known.
    """

    content: str
    here: str = ""

    @property
    def is_known(self) -> bool:
        """Return whether it tells anything."""
        return bool(self.content)

    def is_of(self, other: Stamp) -> bool:
        """Return whether data with another stamp, perhaps of another machine, may be the same."""
        return not (self.is_known and other.is_known) or self.content == other.content


def stamp_of(source: str) -> Stamp:
    """Return the stamp of a file or folder, here or behind a URL; where data cannot be told apart, a new one each time.

    A file behind a URL whose server has no digest of it is read as a whole: dates alone do not tell its content.
    """
    text = source.partition("#")[0]
    try:
        if not is_remote(text):
            return _of_path(Path(text))
        fs, path = filesystem(text)
        if _is_local(fs):
            return _of_path(Path(path))
        fs.invalidate_cache()
        return _of_remote(fs, path)
    except (OSError, NotImplementedError):
        return _unknown()


def is_remote(text: str) -> bool:
    """Return whether something is a URL."""
    return "://" in text


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises UsageError."""
    try:
        return importlib.import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise UsageError(
            f"this URL cannot be read ({error})", where=url, hint="pip install 'onnx-passes[data]'"
        ) from error
    except ValueError as error:
        raise UsageError(f"this URL cannot be read ({error})", where=url) from error


def open_remote(url: str) -> Any:
    """Open the file of a URL to read bytes. Raises UsageError."""
    fs, path = filesystem(url)
    return fs.open(path, "rb")


def _is_local(fs: Any) -> bool:
    protocol = fs.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _of_path(path: Path) -> Stamp:
    if not path.is_dir():
        return _stated([("", path.stat())])
    return _stated((str(one.relative_to(path)), one.stat()) for one in sorted(path.rglob("*")) if one.is_file())


def _stated(files: Iterable[tuple[str, os.stat_result]]) -> Stamp:
    files = list(files)
    content = [f"{name} {status.st_size} {int(status.st_mtime)}" for name, status in files]
    here = [f"{status.st_ino} {status.st_mtime_ns}" for _, status in files]
    return Stamp(_short(content), _short(here))


def _of_remote(fs: Any, path: str) -> Stamp:
    info = cast("Mapping[str, Any]", fs.info(path))
    if info.get("type") != "directory":
        return Stamp(_digest_in(info) or _digest_of(fs, path))
    found = cast("Mapping[str, Mapping[str, Any]]", fs.find(path, detail=True))
    digests = {name: _digest_in(info) for name, info in found.items()}
    # A folder may hold any amount, so that nothing is read where one file has no digest.
    is_known = bool(digests) and all(digests.values())
    return Stamp(_short(f"{name} {digest}" for name, digest in sorted(digests.items()))) if is_known else _unknown()


def _digest_in(info: Mapping[str, Any]) -> str:
    """Return what the file system says of the content of a file; weak tags may be the same for other bytes."""
    for key in _DIGESTS:
        digest = str(info.get(key) or "")
        if digest and not digest.startswith("W/"):
            return f"{key} {digest} {info.get('size')}"
    return ""


def _digest_of(fs: Any, path: str) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with fs.open(path, "rb", cache_type="readahead") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return f"content {digest.hexdigest()}"


def _unknown() -> Stamp:
    return Stamp("", uuid.uuid4().hex)


def _short(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
