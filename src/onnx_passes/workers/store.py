"""Files by content, shared by the process that submits work and its workers."""

from __future__ import annotations

import hashlib
import importlib
import os
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.atomic import replacing

Content = bytes | memoryview


@dataclass(frozen=True)
class Store:
    """A folder, or a URL that fsspec understands; for URLs every machine keeps a copy of the files it used.

    A file is written once and never changed: its name denotes its content.
    """

    location: str

    def put(self, content: Content, suffix: str = "") -> str:
        """Store content, unless it exists already, and return the name of its file."""
        name = name_of(content) + suffix
        if not self.has(name):
            self.write(name, content)
        return name

    def has(self, name: str) -> bool:
        """Return whether a file exists."""
        if self._local(name).exists():
            return True
        return self._remote is not None and bool(self._remote.exists(self._url(name)))

    def write(self, name: str, content: Content) -> None:
        """Write a file atomically."""
        path = self._local(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)
        if self._remote is not None:
            with self._remote.open(self._url(name), "wb") as file:
                file.write(content)

    def path(self, name: str) -> Path | None:
        """Return the path of a file on this machine; None if it does not exist."""
        path = self._local(name)
        if path.exists():
            return path
        if self._remote is None or not self._remote.exists(self._url(name)):
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            self._remote.get_file(self._url(name), str(part))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def place(self, name: str) -> str:
        """Return the path or URL of a file for all users of the store."""
        return f"{self.location.rstrip('/')}/{name}" if self._remote is not None else str(self._local(name).absolute())

    def _local(self, name: str) -> Path:
        return self._folder / name

    def _url(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @cached_property
    def _folder(self) -> Path:
        if "://" not in self.location:
            return Path(self.location)
        own = hashlib.blake2b(self.location.encode(), digest_size=8).hexdigest()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onnx-passes" / own

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        try:
            url_to_fs: Any = importlib.import_module("fsspec.core").url_to_fs
        except ImportError:
            raise UsageError(
                "URLs need fsspec, which is not installed",
                where=self.location,
                hint="pip install 'onnx-passes[data]'",
            ) from None
        return url_to_fs(self.location)

    @property
    def _remote(self) -> Any:
        return self._opened[0] if "://" in self.location else None

    @property
    def _root(self) -> str:
        return self._opened[1]


def name_of(content: Content) -> str:
    """Return the name of the file for this content."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()
