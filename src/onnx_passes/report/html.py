"""The report of a run as a file: a self-contained page, or its data."""

from __future__ import annotations

import base64
import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.atomic import is_special, replacing

_PLACE = "__REPORT_DATA__"
_PLAIN = '<script type="application/json" id="report">'
_PACKED = '<script type="application/octet-stream;base64" id="report-gz">'


def write_report(data: dict[str, Any], target: str | Path) -> Path:
    """Write a report atomically: with the suffix .json its data, otherwise a page."""
    path = Path(target)
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    try:
        _write(path, text + "\n" if path.suffix == ".json" else page(text))
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror or error}", where=str(target), hint="choose another place"
        ) from error
    return path


def page(text: str) -> str:
    """Put the data of a report into the page that shows it, compressed if that makes it a third."""
    template = resources.files("onnx_passes.report").joinpath("viewer/viewer.html")
    try:
        html = template.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            "this installation has no page for reports", hint="write the data, as to report.json"
        ) from error
    # The same data give the same page: no time of writing is kept.
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    if 3 * len(packed) < len(text):
        return html.replace(_PLAIN + _PLACE, _PACKED + packed, 1)
    return html.replace(_PLACE, text.replace("</", "<\\/").replace("<!--", "<\\u0021--"), 1)


def _write(path: Path, text: str) -> None:
    if is_special(path):
        path.write_text(text, encoding="utf-8")
        return
    with replacing(path) as file:
        file.write(text.encode())
