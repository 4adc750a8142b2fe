"""Ranges as text: what users say of inputs, and what is written into the metadata of values."""

from __future__ import annotations

import json
import math

import numpy as np

from onnx_passes.analysis.ranges import Known
from onnx_passes.core.errors import UsageError
from onnx_passes.numbers.range import Range

KEY = "onnx_passes.range"
"""Where the range of a value is written, in ``value.metadata_props``."""

_LONGEST = 4096
"""Lists of more numbers than this are joined to what holds for all elements."""

Number = float | int | None
Entry = Number | list[Number]


def parse_inputs(text: str) -> dict[str, Known]:
    """Read what is known of inputs, as in ``x=0:255 y=INT4``; an end that is left out is open."""
    known: dict[str, Known] = {}
    for part in text.replace(",", " ").split():
        name, found, said = part.rpartition("=")
        if not found or not name:
            raise UsageError(
                f"'{part}' does not say which input has which range", hint="write it as 'x=0:255' or 'x=UINT8'"
            )
        known[name] = _ends(said, part) if ":" in said else said
    return known


def _ends(said: str, part: str) -> tuple[float, float]:
    low, _, high = said.partition(":")
    try:
        return float(low) if low else -math.inf, float(high) if high else math.inf
    except ValueError as error:
        raise UsageError(f"'{part}' does not end in two numbers", hint="write it as 'x=0:255'") from error


def range_text(found: Range) -> str:
    """Write a range as compact JSON: numbers, or lists of numbers along ``axis``; an open end is null."""
    grid = found.grid
    arrays = {"low": found.low, "high": found.high}
    if grid is not None:
        arrays |= {"scale": grid.scale, "bias": grid.bias, "qlow": grid.low, "qhigh": grid.high}
    axes = {axis for array in arrays.values() for axis, size in enumerate(array.shape) if size > 1}
    if len(axes) > 1 or any(array.size > _LONGEST for array in arrays.values()):
        return range_text(found.joined(range(found.low.ndim)))
    entries: dict[str, Entry] = {name: _entry(array) for name, array in arrays.items()}
    if axes:
        entries["axis"] = axes.pop()
    return json.dumps(entries, separators=(",", ":"))


def _entry(array: np.ndarray) -> Entry:
    numbers = [_number(item) for item in array.reshape(-1).tolist()]
    return numbers[0] if len(numbers) == 1 else numbers


def _number(item: float) -> Number:
    if not math.isfinite(item):
        return None
    return int(item) if item == int(item) else item
