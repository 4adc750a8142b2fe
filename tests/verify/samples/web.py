"""A server whose files change, and a file system for it that needs no more than Python and fsspec.

``web://`` takes files for static as fsspec does ``http://``, whose requests need aiohttp.
"""

from __future__ import annotations

import contextlib
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Site:
    """Files by their paths, whether they have tags and parts of them are sent alone, and the requests so far."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    has_tags: bool = False
    is_weak: bool = False
    """Whether tags are of contents that mean the same, whatever their bytes."""
    has_ranges: bool = True
    asked: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def serving(*, has_tags: bool) -> Iterator[Site]:
    """Serve files on this machine until the block ends."""
    site = Site(has_tags=has_tags)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(with_content=False)

        def do_GET(self) -> None:
            self.answer(with_content=True)

        def answer(self, *, with_content: bool) -> None:
            site.asked.append(f"{self.command} {self.path}")
            content = site.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            asked = self.headers.get("Range") if site.has_ranges else None
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "")
            sent = content[int(part[1]) : int(part[2]) + 1 if part[2] else None] if part else content
            self.send_response(206 if part else 200)
            self.send_header("Content-Length", str(len(sent)))
            self.send_header("Last-Modified", "Wed, 18 Nov 2026 12:00:00 GMT")
            if part:
                self.send_header("Content-Range", f"bytes {part[1]}-{int(part[1]) + len(sent) - 1}/{len(content)}")
            if site.has_tags:
                self.send_header("ETag", 'W/"any"' if site.is_weak else f'"{hash(content)}"')
            self.end_headers()
            if with_content:
                self.wfile.write(sent)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        site.address = f"127.0.0.1:{server.server_port}"
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def register_web() -> None:
    """Let fsspec know ``web://``."""
    fsspec: Any = pytest.importorskip("fsspec")
    spec: Any = pytest.importorskip("fsspec.spec")

    class Web(spec.AbstractFileSystem):
        protocol = "web"

        def info(self, path: str, **_: Any) -> dict[str, Any]:
            with self._request(path, "HEAD") as answer:
                found = {"name": path, "size": int(answer.headers["Content-Length"]), "type": "file"}
                return {**found, **{key: answer.headers[key] for key in ("ETag",) if answer.headers[key]}}

        def ukey(self, path: str) -> str:
            return path

        def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
            with self._request(path, part="" if end is None else f"bytes={start or 0}-{end - 1}") as answer:
                return answer.read()

        def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            import io

            return io.BytesIO(self.cat_file(path))

        def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
            return self._open(path)

        def _request(self, path: str, method: str = "GET", part: str = "") -> Any:
            headers = {"Range": part} if part else {}
            try:
                return urllib.request.urlopen(urllib.request.Request(f"http://{path}", method=method, headers=headers))
            except urllib.error.HTTPError as error:
                raise FileNotFoundError(path) from error

    fsspec.register_implementation("web", Web, clobber=True)
