"""A folder from which a failure can be repeated: the model before, the pass, the data, the versions."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.build import collect
from onnx_passes.core.compose import ComposePass
from onnx_passes.core.errors import UsageError
from onnx_passes.graph.load import load
from onnx_passes.graph.save import save
from onnx_passes.verify.samples.numpy_files import read_numpy, write_numpy

_PACKAGES = ("onnx-passes", "onnx-ir", "onnxscript", "onnx", "onnxruntime", "numpy")
_MODEL, _REPORT, _SCRIPT = "before.onnx", "report.json", "repro.py"
_STRING = "string"

_SCRIPT_TEXT = '''"""Repeat the failure that is kept in this folder: python repro.py"""

import sys
from pathlib import Path

from onnx_passes.debug.repro import repeat

outcome = repeat(Path(__file__).parent)
sys.stderr.write(f"{outcome}\\n")
sys.exit(1 if outcome.fails else 0)
'''


@dataclass(frozen=True)
class Reproducer:
    """Content of a folder to repeat a failure, with the report of the first time."""

    folder: Path
    model: ir.Model
    samples: list[dict[str, np.ndarray]]
    pipeline: str
    imports: tuple[str, ...]
    tolerance: tuple[float, float] | None
    versions: Mapping[str, str]
    report: Mapping[str, Any]


def write_reproducer(
    folder: Path,
    before: ir.Model,
    pipeline: str,
    samples: Sequence[Mapping[str, np.ndarray]],
    report: Mapping[str, Any],
    *,
    imports: Sequence[str] | None = None,
    seed: int | None = None,
    tolerance: tuple[float, float] | None = None,
) -> Path:
    """Write model, inputs, ``report.json`` and ``repro.py`` into a new folder; returns the folder.

    ``imports`` are modules and files that define passes of the pipeline; by default they are looked up.
    ``tolerance`` is what results were held to where a pass promises none, absolute and relative.
    """
    place = _free(folder)
    try:
        place.mkdir(parents=True)
        save(before, place / _MODEL)
        inputs = write_samples(place, samples)
        content: dict[str, Any] = {
            "pipeline": pipeline,
            "imports": list(sources(pipeline) if imports is None else imports),
            "seed": seed,
            "tolerance": None if tolerance is None else {"atol": tolerance[0], "rtol": tolerance[1]},
            "inputs": inputs,
            "versions": versions(),
            **report,
        }
        (place / _REPORT).write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
        (place / _SCRIPT).write_text(_SCRIPT_TEXT, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(place)) from error
    return place


def read_reproducer(folder: Path) -> Reproducer:
    """Read a folder; raises UsageError if a file is missing or wrong."""
    where = folder / _REPORT
    if not where.is_file():
        what = "this is no folder" if not folder.is_dir() else f"there is no {_REPORT} in this folder"
        raise UsageError(what, where=str(folder), hint="give a folder that a failed run or 'reduce' has written")
    try:
        report = json.loads(where.read_text(encoding="utf-8"))
        pipeline, inputs = report["pipeline"], report.get("inputs", _unlisted(folder))
        imports = tuple(str(name) for name in report.get("imports") or ())
        tolerance = report.get("tolerance")
        limits = (float(tolerance["atol"]), float(tolerance["rtol"])) if tolerance else None
        listed = [(str(entry["file"]), dict(entry["types"])) for entry in inputs]
        written = {str(key): str(value) for key, value in report.get("versions", {}).items()}
        if not isinstance(pipeline, str):
            raise TypeError("the pipeline is no text")
    except KeyError as error:
        raise UsageError(f"the report lacks {error}", where=str(where)) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"this is not the report of a failure ({error})", where=str(where)) from error
    model = load(folder / _MODEL)
    samples = [_read_sample(folder / Path(file).name, types) for file, types in listed]
    return Reproducer(folder, model, samples, pipeline, imports, limits, written, report)


def write_samples(folder: Path, samples: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, Any]]:
    """Write ``inputs-N.npz``; returns the list of files, each with the types that numpy's format does not know."""
    listed: list[dict[str, Any]] = []
    for number, sample in enumerate(samples):
        types: dict[str, dict[str, Any]] = {}
        name = f"inputs-{number}.npz"
        stored = {key: _storable(np.asarray(array), key, types) for key, array in sample.items()}
        write_numpy(folder / name, stored, packed=True)
        listed.append({"file": name, "types": types})
    return listed


def versions() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def sources(pipeline: str) -> list[str]:
    """List the modules, or files where no module can be imported by name, that define a user's passes."""
    try:
        passes = list(_walk(collect(pipeline)))
    except UsageError:
        # A pass that was given as an object has no registered name.
        return []
    modules = dict.fromkeys(type(pass_).__module__ for pass_ in passes)
    found = [_source(name) for name in modules if name.split(".")[0] != "onnx_passes"]
    return [source for source in found if source is not None]


def _walk(passes: Iterable[object]) -> Iterator[Pass]:
    for pass_ in passes:
        if isinstance(pass_, Pass):
            yield pass_
        if isinstance(pass_, ComposePass):
            yield from _walk(cast("Iterable[object]", pass_.body))


def _source(module: str) -> str | None:
    if module == "__main__":
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module
    path = Path(file).resolve()
    parts = Path(*module.split("."))
    forms = (parts.with_suffix(".py"), parts / "__init__.py")
    installed = any(path == Path(root).resolve() / form for root in sys.path if root for form in forms)
    return module if installed else str(path)


def _free(folder: Path) -> Path:
    place, number = folder, 1
    while place.exists():
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    return place


def _storable(array: np.ndarray, name: str, types: dict[str, dict[str, Any]]) -> np.ndarray:
    """Return an array that numpy can store: the bits of a type that it does not know, texts as JSON."""
    if array.dtype.kind in "OUS":
        types[name] = {"dtype": _STRING, "shape": list(array.shape)}
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in array.reshape(-1).tolist()]
        return np.frombuffer(json.dumps(texts).encode(), np.uint8)
    if array.dtype.isbuiltin != 1:
        types[name] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        return np.frombuffer(array.tobytes(), f"u{array.dtype.itemsize}").reshape(array.shape)
    return array


def _read_sample(path: Path, types: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray]:
    arrays = read_numpy(path)
    if isinstance(arrays, np.ndarray):
        raise UsageError("this is one array, not the inputs by name", where=str(path))
    try:
        return {name: _restored(array, types.get(name)) for name, array in arrays.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"these inputs cannot be read ({error})", where=str(path)) from error


def _restored(array: np.ndarray, type_: Mapping[str, Any] | None) -> np.ndarray:
    if type_ is None:
        return array
    shape = tuple(int(size) for size in type_["shape"])
    if type_["dtype"] == _STRING:
        texts = np.empty(len(items := json.loads(array.tobytes().decode())), dtype=object)
        texts[:] = items
        return texts.reshape(shape)
    import ml_dtypes

    return np.frombuffer(array.tobytes(), np.dtype(getattr(ml_dtypes, str(type_["dtype"])))).reshape(shape).copy()


def _unlisted(folder: Path) -> list[dict[str, Any]]:
    """List the inputs of a folder whose report does not."""
    files = sorted(folder.glob("inputs-*.npz"), key=lambda path: (len(path.name), path.name))
    return [{"file": path.name, "types": {}} for path in files]
