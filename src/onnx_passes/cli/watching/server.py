"""The report of a watch in the browser: a local page, which reloads after every run.

A page that was opened as a file may not ask whether that file has changed. So the report is served here, with a short
script; the file that is written has none.
"""

from __future__ import annotations

import html
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_HEARTBEAT = 10.0
_SCRIPT = """<script>
(() => {
  const events = new EventSource("/events?seen=%d");
  events.onmessage = () => location.reload();
  addEventListener("pagehide", () => events.close());
})();
</script>"""
_BANNER = """<div role="alert" style="position:fixed;left:0;right:0;bottom:0;z-index:9999;max-height:45vh;overflow:auto;
padding:12px 16px;background:#8f1d23;color:#fff;font:13px/1.5 ui-monospace,monospace;white-space:pre-wrap">%s</div>"""
_EMPTY = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>onnx-passes watch</title></head><body style="font:15px system-ui;margin:3em"><p>%s</p>
</body></html>"""
_NO_CONNECTIONS = "default-src 'none'"


class ReportServer:
    """Server of the latest report, which notifies open pages of a newer one."""

    def __init__(self, report: Path, port: int = 0) -> None:
        self.report = report
        self.error = ""
        self._version = 0
        self._closed = False
        self._news = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def announce(self, error: str = "") -> None:
        """Make all open pages reload; an error is shown above the last report."""
        with self._news:
            self.error = error
            self._version += 1
            self._news.notify_all()

    def close(self) -> None:
        """Stop the server."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def page(self) -> str:
        """Return the report with the script that reloads it, and with the latest error."""
        version, error = self._version, self.error
        try:
            text = self.report.read_text(encoding="utf-8")
        except OSError:
            text = _EMPTY % ("There is no report yet." if error else "The first run is under way …")
        text = text.replace(_NO_CONNECTIONS, f"{_NO_CONNECTIONS}; connect-src 'self'", 1)
        before, tag, after = text.rpartition("</body>")
        banner = _BANNER % html.escape(error) if error else ""
        return f"{before}{banner}{_SCRIPT % version}{tag}{after}"

    def wait_for_news(self, seen: int) -> int | None:
        """Wait for a newer report and return its number; None if none arrives in time."""
        with self._news:
            self._news.wait_for(lambda: self._closed or self._version > seen, _HEARTBEAT)
            return self._version if self._version > seen else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = (self.headers.get("Host") or "").rpartition(":")[0]
                # Reject other host names, lest another site read reports by DNS rebinding.
                if name not in ("127.0.0.1", "localhost"):
                    self.send_error(403)
                elif self.path == "/":
                    self._answer(server.page())
                elif self.path.startswith("/events?seen="):
                    self._events(int("0" + "".join(filter(str.isdecimal, self.path.partition("=")[2]))))
                else:
                    self.send_error(404)

            def _answer(self, text: str) -> None:
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(data)

            def _events(self, seen: int) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                try:
                    while not server.is_closed:
                        news = server.wait_for_news(seen)
                        self.wfile.write(b": still here\n\n" if news is None else f"data: {news}\n\n".encode())
                        self.wfile.flush()
                        seen = seen if news is None else news
                except OSError:
                    return

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Print nothing: the terminal is for runs."""

        return Handler

    @property
    def is_closed(self) -> bool:
        """Return whether the watch has ended."""
        return self._closed
