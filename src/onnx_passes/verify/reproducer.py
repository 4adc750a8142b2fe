"""A folder from which a failure can be repeated: the model before, the pass, the data, the versions."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.save import save

_PACKAGES = ("onnx-passes", "onnx-ir", "onnxscript", "onnx", "onnxruntime", "numpy")


def write_reproducer(
    folder: Path, before: ir.Model, pipeline: str, samples: list[dict[str, np.ndarray]], report: dict[str, Any]
) -> Path:
    """Write ``before.onnx``, ``inputs-N.npz`` and ``report.json`` into a new folder; returns the folder."""
    place = _free(folder)
    try:
        place.mkdir(parents=True)
        save(before, place / "before.onnx")
        for number, sample in enumerate(samples):
            carried = {name: _storable(array) for name, array in sample.items()}
            np.savez(place / f"inputs-{number}.npz", allow_pickle=False, **carried)  # pyright: ignore[reportArgumentType]
        content = {"pipeline": pipeline, "versions": versions(), **report}
        (place / "report.json").write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(place)) from error
    return place


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _free(folder: Path) -> Path:
    place, number = folder, 1
    while place.exists():
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    return place


def _storable(array: np.ndarray) -> np.ndarray:
    """Widen types that numpy's file format does not know, and write texts as such."""
    if array.dtype.kind == "V":
        return array.astype(np.float32)
    return array.astype(np.str_) if array.dtype.kind == "O" else array
