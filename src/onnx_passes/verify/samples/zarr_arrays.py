"""Arrays of Zarr, read chunk by chunk; chunks that are missing are an error and no fill values."""

from __future__ import annotations

import importlib
import itertools
import math
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.resources import current_resources
from onnx_passes.verify.samples.lazy import Array, LazyArray
from onnx_passes.verify.samples.stamps import filesystem, is_remote

_MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(text: str) -> bool:
    """Return whether a path or URL is that of an array or group of Zarr."""
    if is_remote(text):
        if PurePosixPath(text).suffix != ".zarr":
            return False
        fs, path = filesystem(text)
        return any(fs.exists(f"{path}/{name}") for name in _MARKS)
    return any((Path(text) / name).exists() for name in _MARKS)


def open_zarr(text: str) -> Array | LazyArray | dict[str, Array | LazyArray]:
    """Open an array, or those of a group by name. Raises UsageError."""
    try:
        zarr: Any = importlib.import_module("zarr")
    except ImportError:
        raise UsageError("Zarr is not installed", where=text, hint="pip install 'onnx-passes[data]'") from None
    try:
        opened = zarr.open(text, mode="r")
    except Exception as error:
        raise UsageError(f"this is not a readable Zarr store ({error})", where=text) from error
    if hasattr(opened, "shape"):
        return _opened(opened, text)
    return {str(name): _opened(array, text) for name, array in sorted(opened.arrays())}


def _opened(array: Any, text: str) -> Array | LazyArray:
    chunks = _Chunks(array, text)
    shape = tuple(array.shape)

    def read(start: int, stop: int) -> Array:
        chunks.require(start, stop)
        try:
            return np.asarray(array[start:stop] if shape else array[()])
        except Exception as error:
            raise UsageError(f"rows {start} to {stop} cannot be read ({error})", where=chunks.where) from error

    if not shape:
        return read(0, 1)

    return LazyArray(shape, np.dtype(array.dtype), read, where=chunks.where)


class _Chunks:
    """The files that an array is stored in: its chunks or, where these are put together, its shards."""

    def __init__(self, array: Any, text: str) -> None:
        self.where = f"{text}#{array.path}" if array.path else text
        self._array = array
        self._folder = f"{text}/{array.path}" if array.path else text
        self._sizes: tuple[int, ...] = tuple(array.shards or array.chunks)
        self._seen = range(0)

    def require(self, start: int, stop: int) -> None:
        """Raise UsageError if a chunk that holds any of these rows is missing, which Zarr fills in, or is too large."""
        size, most = math.prod(self._array.chunks) * self._array.dtype.itemsize, current_resources().memory
        if size > most:
            raise UsageError(
                f"a chunk of shape {list(self._array.chunks)} takes {size / 2**30:.3g} GiB, more than the "
                f"{most / 2**30:.3g} GiB of --memory-limit",
                where=self.where,
                hint="store the array in smaller chunks",
            )
        places = [range(-(-length // size)) for length, size in zip(self._array.shape, self._sizes, strict=True)]
        if places:
            places[0] = range(start // self._sizes[0], -(-stop // self._sizes[0]))
        for place in itertools.product(*places):
            if place[:1] and place[0] in self._seen:
                continue
            key = str(self._array.metadata.encode_chunk_key(place))
            if not self._exists(key):
                raise UsageError(
                    f"the chunk '{key}' of the array is missing: Zarr would read {self._array.fill_value} in its place",
                    where=self.where,
                    hint="copy the data anew; chunks of nothing but this value are there "
                    "if they were written with write_empty_chunks",
                )
        if places:
            self._seen = places[0]

    def _exists(self, key: str) -> bool:
        if not is_remote(self._folder):
            return (Path(self._folder) / key).exists()
        fs, path = filesystem(self._folder)
        return bool(fs.exists(f"{path}/{key}"))
