"""Stamps of data: data behind the same name with another stamp are other data."""

from __future__ import annotations

import hashlib
import importlib
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from onnx_passes.core.errors import UsageError

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
