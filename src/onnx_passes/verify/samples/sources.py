"""Data of any size by its name: files, patterns, folders and Zarr stores, here or behind a URL."""

from __future__ import annotations

import importlib
import io
import itertools
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.run.resources import current_resources
from onnx_passes.verify.samples.numpy_files import Array, LazyArray, map_numpy, read_numpy, read_open_numpy, reading
from onnx_passes.verify.samples.tables import Stamp, filesystem, is_remote, open_remote, open_table, stamp_of

Found = Array | LazyArray | dict[str, Array | LazyArray]


@dataclass(frozen=True)
class Opened:
    """Arrays of a file, unread, and the file."""

    where: str
    found: Found


_TABLES = (".parquet", ".arrow", ".feather")
_SUFFIXES = (".npy", ".npz", ".pb", *_TABLES)


def listed(sources: Any) -> list[Any]:
    """Return sources as a list; a file, an array or arrays by name are one source."""
    one = isinstance(sources, str | PathLike | np.ndarray | Mapping | Opened)
    return [sources] if one else list(cast("Iterable[Any]", sources))


def expand_sources(sources: Iterable[Any]) -> list[Any]:
    """Replace patterns and folders by the files that they stand for, in the order of their names."""
    found: list[Any] = []
    for source in listed(sources):
        found.extend(_expand(cast("str", source)) if isinstance(source, str | PathLike) else [source])
    return found


def stamps_of(sources: Iterable[Any]) -> dict[str, Stamp]:
    """Return the stamps of all data that are given by name, by their names."""
    names = [fspath(cast("str", one)) for one in expand_sources(sources) if isinstance(one, str | PathLike)]
    return {name: stamp_of(name) for name in names}


def open_rows(source: Any) -> Any:
    """Open a file so that rows of it are read when they are used; anything else is returned as it is."""
    if not isinstance(source, str | PathLike):
        return source
    text = fspath(cast("str", source))
    opened = open_source(text)
    if opened is None and PurePosixPath(text).suffix.lower() in (".npy", ".npz") and Path(text).is_file():
        opened = Opened(text, _numpy(text))
    return text if opened is None else opened


def open_source(source: str | PathLike[str]) -> Opened | None:
    """Open what is not a file of one's own: tables, groups, URLs, and arrays that are chosen by name.

    ``file#name`` is one array of an archive, table or group; ``file#a,b`` are several. Raises UsageError.
    """
    text, _, chosen = fspath(source).partition("#")
    found = _opened(text, by_name=bool(chosen))
    if found is None:
        return None
    if not chosen:
        return Opened(text, found)
    names = chosen.split(",")
    if not isinstance(found, dict):
        raise UsageError("there are no arrays by name in it", where=text, hint=f"leave out '#{chosen}'")
    for name in names:
        if name not in found:
            raise UsageError(f"there is no '{name}' in it", where=text, hint=f"it has {', '.join(found)}")
    # One that was chosen is meant, whatever it is called.
    return Opened(fspath(source), found[chosen] if len(names) == 1 else {name: found[name] for name in names})


def _opened(text: str, *, by_name: bool) -> Found | None:
    suffix = PurePosixPath(text).suffix.lower()
    if is_zarr(text):
        return open_zarr(text)
    if suffix in _TABLES and (is_remote(text) or Path(text).is_file()):
        return open_table(text)
    if is_remote(text) or (by_name and Path(text).is_file()):
        return _numpy(text)
    return None


def _numpy(text: str) -> Found:
    suffix = PurePosixPath(text).suffix.lower()
    if suffix == ".npz":
        return _archive(text)
    if suffix != ".npy":
        raise UsageError("data of this kind is not read so", where=text, hint=f"give {', '.join(_SUFFIXES)}")
    if is_remote(text):
        return _remote_numpy(text)
    mapped = map_numpy(Path(text))
    return _at_once(mapped.shape, mapped.dtype, lambda: mapped)


def _expand(source: str | PathLike[str]) -> list[str]:
    text, mark, chosen = fspath(source).partition("#")
    found = _inside_url(text) if is_remote(text) else _inside(Path(text))
    return [fspath(source)] if found is None else [f"{one}{mark}{chosen}" for one in found]


def _inside(path: Path) -> list[str] | None:
    if path.is_dir() and not is_zarr(str(path)):
        found = sorted(str(one) for one in path.rglob("*") if one.suffix.lower() in _SUFFIXES and one.is_file())
        what = "there are no data in this folder"
    elif not path.exists() and any(mark in str(path) for mark in "*?["):
        parts = path.parts
        first = next(number for number, part in enumerate(parts) if any(mark in part for mark in "*?["))
        found = sorted(map(str, Path(*parts[:first]).glob(str(Path(*parts[first:])))))
        what = "no file is of this pattern"
    else:
        return None
    if not found:
        raise UsageError(what, where=str(path), hint=f"looked for {', '.join(_SUFFIXES)}")
    return found


def _inside_url(url: str) -> list[str] | None:
    fs, path = filesystem(url)
    if any(mark in path for mark in "*?["):
        found = sorted(cast("list[str]", fs.glob(path)))
    elif PurePosixPath(path).suffix.lower() not in _SUFFIXES and fs.isdir(path) and not is_zarr(url):
        files = cast("list[str]", fs.find(path))
        found = sorted(one for one in files if any(fnmatch(one, f"*{suffix}") for suffix in _SUFFIXES))
    else:
        return None
    if not found:
        raise UsageError("there are no data here", where=url, hint=f"looked for {', '.join(_SUFFIXES)}")
    return [str(fs.unstrip_protocol(one)) for one in found]


def _remote_numpy(url: str) -> Array | LazyArray:
    fs, path = filesystem(url)
    with reading(url), fs.open(path, "rb") as file:
        shape, fortran, dtype = _header(file)
        offset = file.tell()
    if fortran or not shape:
        return _at_once(shape, dtype, lambda: np.load(io.BytesIO(fs.cat_file(path)), allow_pickle=False))
    size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))

    def read(start: int, stop: int) -> Array:
        first, last = offset + start * size, offset + stop * size
        with reading(url):
            content = cast("bytes", fs.cat_file(path, start=first, end=last))
        if len(content) > last - first:
            # The server has no ranges, and sent all of the file.
            content = content[first:last]
        if len(content) != last - first:
            raise UsageError(f"it ends before row {stop} of {shape[0]}", where=url, hint="copy the data anew")
        return np.frombuffer(content, dtype).reshape(stop - start, *shape[1:])

    return LazyArray(shape, dtype, read, where=url)


def _archive(text: str) -> Found:
    """Open the arrays of an archive by their headers; an array is read as a whole, and kept for its next rows."""
    whole = _whole_archive if not is_remote(text) else _whole_remote_archive
    stamp = stamp_of(text)
    with (
        reading(text),
        open_remote(text) if is_remote(text) else Path(text).open("rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        found: dict[str, Array | LazyArray] = {}
        for entry in archive.namelist():
            with archive.open(entry) as member:
                shape, _, dtype = _header(cast("BinaryIO", member))
            name = entry.removesuffix(".npy")
            found[name] = _at_once(shape, dtype, lambda name=name: whole(text, stamp)[name])
    return found


@lru_cache(maxsize=2)
def _whole_archive(path: str, stamp: Stamp) -> Mapping[str, Array]:
    return cast("dict[str, Array]", read_numpy(Path(path)))


@lru_cache(maxsize=2)
def _whole_remote_archive(url: str, stamp: Stamp) -> Mapping[str, Array]:
    fs, path = filesystem(url)
    with reading(url):
        return cast("dict[str, Array]", read_open_numpy(io.BytesIO(fs.cat_file(path)), url))


def _at_once(shape: tuple[int, ...], dtype: np.dtype[Any], load: Callable[[], Array]) -> Array | LazyArray:
    return LazyArray(shape, dtype, lambda start, stop: load()[start:stop]) if shape else load()


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    return shape, fortran, dtype


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
        return _opened_store(opened, text)
    return {str(name): _opened_store(array, text) for name, array in sorted(opened.arrays())}


def _opened_store(array: Any, text: str) -> Array | LazyArray:
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
