"""Integer networks in files: ``network.json`` describes the layers, ``arrays.npz`` holds the numbers.

``network.json``, version 1::

    {"format": "onnx-passes layers", "version": 1, "name": "digits", "inputs": ["image"], "outputs": ["logits"],
     "tensors": [{"name": "conv1", "shape": ["N", 16, 8, 8], "type": "INT18", "container": "int32_t",
                  "low": -94588, "high": 94877, "lows": "a3", "highs": "a4", "source": "conv1"},
                 {"name": "w", "shape": [16, 1, 3, 3], "type": "INT8", "container": "int8_t",
                  "low": -127, "high": 127, "source": "", "values": "a0"}],
     "layers": [{"name": "conv1", "kind": "product", "operator": "Conv", "inputs": ["x", "w", null],
                 "outputs": ["conv1"], "attributes": {"strides": [1, 1]}, "accumulator": "INT18",
                 "accumulator_container": "int32_t", "reason": ""}]}

``values``, ``lows`` and ``highs`` name arrays of ``arrays.npz``; bounds that are equal for all elements have none.
An open end is null. Readers skip unknown keys; the semantics of a version never changes.
"""

from __future__ import annotations

import json
import math
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from onnx_passes.backend.network import KINDS, IntegerNetwork, Layer, Tensor
from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes import parse
from onnx_passes.verify.samples.numpy_files import read_numpy, write_numpy

FORMAT = "onnx-passes layers"
VERSION = 1
DESCRIPTION, ARRAYS = "network.json", "arrays.npz"
_AGAIN = "export the layers again"


def described(network: IntegerNetwork) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the contents of the two files of a network."""
    arrays: dict[str, np.ndarray] = {}

    def stored(array: np.ndarray) -> str:
        arrays[key := f"a{len(arrays)}"] = array
        return key

    def tensor(each: Tensor) -> dict[str, Any]:
        low, high = (end if math.isfinite(end) else None for end in each.bounds)
        data: dict[str, Any] = {"name": each.name, "shape": each.shape, "type": str(each.type)}
        data |= {"container": each.container, "low": low, "high": high, "source": each.source}
        if each.values is not None:
            return data | {"values": stored(each.values)}
        if each.low.ndim or each.high.ndim:
            data |= {"lows": stored(each.low), "highs": stored(each.high)}
        return data

    def layer(each: Layer) -> dict[str, Any]:
        return {
            "name": each.name,
            "kind": each.kind,
            "operator": each.operator,
            "inputs": [None if given is None else given.name for given in each.inputs],
            "outputs": [made.name for made in each.outputs],
            "attributes": dict(each.attributes),
            "accumulator": None if each.accumulator is None else str(each.accumulator),
            "accumulator_container": each.accumulator_container or None,
            "reason": each.reason,
        }

    data = {
        "format": FORMAT,
        "version": VERSION,
        "name": network.name,
        "inputs": [each.name for each in network.inputs],
        "outputs": [each.name for each in network.outputs],
        "tensors": [tensor(each) for each in network.tensors.values()],
        "layers": [layer(each) for each in network.layers],
    }
    return data, arrays


def write_network(network: IntegerNetwork, folder: Path) -> None:
    """Write both files to a new folder, or replace a network written earlier. Raises UsageError."""
    require_place(folder)
    data, arrays = described(network)
    fresh = folder.with_name(f".{folder.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        fresh.mkdir()
        write_numpy(fresh / ARRAYS, arrays, packed=True)
        (fresh / DESCRIPTION).write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        if folder.exists():
            old = folder.with_name(f"{fresh.name}.old")
            folder.rename(old)
            fresh.rename(folder)
            shutil.rmtree(old)
        else:
            fresh.rename(folder)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(folder)) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def require_place(folder: Path) -> None:
    """Refuse a path that is not a folder, lacks a parent folder, or is a folder with other contents."""
    if folder.exists() and not folder.is_dir():
        raise UsageError("this is not a folder", where=str(folder), hint="name a new one")
    if not folder.parent.is_dir():
        raise UsageError("the folder above it does not exist", where=str(folder), hint="create it first")
    if folder.is_dir() and {path.name for path in folder.iterdir()} - {DESCRIPTION, ARRAYS}:
        raise UsageError("the folder holds other files", where=str(folder), hint="name a new one")


def read_network(folder: Path) -> IntegerNetwork:
    """Read a network. Raises UsageError if the files hold none."""
    place = folder / DESCRIPTION
    try:
        data: Any = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", where=str(place)) from error
    except ValueError as error:
        raise UsageError(f"this is not JSON ({error})", where=str(place), hint=_AGAIN) from error
    found = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if found.get("format") != FORMAT:
        raise UsageError("this is not a layers file", where=str(place), hint=f"expected the format '{FORMAT}'")
    if found.get("version") != VERSION:
        raise UsageError(f"this is version {found.get('version')}, not {VERSION}", where=str(place), hint=_AGAIN)
    arrays = read_numpy(folder / ARRAYS)
    if isinstance(arrays, np.ndarray):
        raise UsageError(
            "this file holds a single array, not the named arrays of a network", where=str(folder / ARRAYS), hint=_AGAIN
        )
    try:
        return _restored(found, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"this network is incomplete ({error!r})", where=str(place), hint=_AGAIN) from error


def _restored(data: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> IntegerNetwork:
    tensors = {each["name"]: _tensor(each, arrays) for each in data["tensors"]}
    layers = tuple(_layer(each, tensors) for each in data["layers"])
    inputs, outputs = (tuple(tensors[name] for name in data[key]) for key in ("inputs", "outputs"))
    return IntegerNetwork(data["name"], inputs, outputs, layers)


def _tensor(data: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Tensor:
    datatype = parse(data["type"])
    values = arrays[data["values"]] if "values" in data else None
    if "lows" in data:
        low, high = arrays[data["lows"]], arrays[data["highs"]]
    else:
        dtype = np.int64 if datatype.is_integer else np.float64
        open_ = {"low": -math.inf, "high": math.inf}
        low, high = (np.array(open_[key] if data[key] is None else data[key], dtype) for key in open_)
    shape = None if data["shape"] is None else tuple(data["shape"])
    return Tensor(data["name"], shape, datatype, data["container"], low, high, data["source"], values)


def _layer(data: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    if data["kind"] not in KINDS:
        raise ValueError(f"there is no kind '{data['kind']}'")
    return Layer(
        data["name"],
        data["kind"],
        data["operator"],
        tuple(None if name is None else tensors[name] for name in data["inputs"]),
        tuple(tensors[name] for name in data["outputs"]),
        MappingProxyType({name: _plain(value) for name, value in data["attributes"].items()}),
        None if data["accumulator"] is None else parse(data["accumulator"]),
        data["reason"],
    )


def _plain(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
