"""Columns of Parquet and Arrow files as arrays: numbers, lists of a fixed length, and tensors of a fixed shape."""

from __future__ import annotations

import importlib
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Any, cast

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.samples.lazy import Array, LazyArray
from onnx_passes.verify.samples.stamps import Stamp, stamp_of


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
        file = _opened(text)
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
        raise UsageError(f"this is not a readable table ({_line(error)})", where=text) from error


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


def _opened(text: str) -> Any:
    if "://" not in text:
        return text
    fsspec: Any = importlib.import_module("fsspec.core")
    fs, path = fsspec.url_to_fs(text)
    return fs.open(path, "rb")


def _arrow(text: str) -> Any:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        raise UsageError("pyarrow is not installed", where=text, hint="pip install 'onnx-passes[data]'") from None
    return importlib.import_module


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
