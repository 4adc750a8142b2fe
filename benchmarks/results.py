"""Results of benchmarks as data: out/results.json, from which the page of the documentation is made.

A result has a title, a sentence on what was measured, tables, and losses: sentences on where we are behind. It keeps
the machine and the versions it was measured with. A table has columns, rows, and names those columns that are drawn as
bars. `make bench-publish` puts the file in the place of the one that the page shows.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OUT = Path("out") / "results.json"
_PACKAGES = ("onnx-passes", "onnx", "onnx-ir", "onnxruntime", "onnxscript", "numpy")

Cell = str | int | float


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], bars: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe a table; ``bars`` are columns of numbers that are comparable."""
    return {"caption": caption, "columns": list(columns), "rows": [list(row) for row in rows], "bars": list(bars)}


def record(
    name: str, title: str, about: str, tables: Sequence[dict[str, Any]], losses: Sequence[str], out: Path = OUT
) -> None:
    """Write a result in the place of the last one of that name."""
    known = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    known[name] = {
        "title": title,
        "about": about,
        "tables": list(tables),
        "losses": list(losses),
        "machine": machine(),
        "versions": versions(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def machine() -> str:
    """Say what was measured on, without naming it."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def versions() -> dict[str, str]:
    """Return the versions that decide about figures."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}
