"""Results that are maps, as arrays that are compared like others: keys in order, and the values under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard, cast

import numpy as np

KEYS = " keys"
"""Behind the name of an output, that of the keys of its maps."""


def is_map(value: object) -> TypeGuard[dict[Any, Any] | list[dict[Any, Any]]]:
    """Return whether a result is a map, or a sequence of maps that is not empty."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        return bool(items) and all(isinstance(item, dict) for item in items)
    return isinstance(value, dict)


def with_maps_as_arrays(results: Iterable[tuple[str, Any]]) -> dict[str, np.ndarray]:
    """Give each output of maps two entries: its values under its name, one row for each map, and their keys."""
    found: dict[str, np.ndarray] = {}
    for name, value in results:
        if not is_map(value):
            found[name] = value
            continue
        maps = [value] if isinstance(value, dict) else value
        ordered = [dict(sorted(each.items())) for each in maps]
        found[name] = _rows([[*each.values()] for each in ordered])
        found[name + KEYS] = _rows([[*each] for each in ordered])
    return found


def _rows(rows: list[list[Any]]) -> np.ndarray:
    """Return rows of one length as a matrix, others behind one another."""
    elements = [element for row in rows for element in row]
    if elements and all(isinstance(element, float) for element in elements):
        array = np.array(elements, np.float32)
    else:
        array = np.array(elements, np.int64 if all(isinstance(each, int) for each in elements) else object)
    lengths = {len(row) for row in rows}
    return array.reshape(len(rows), -1) if len(lengths) == 1 and elements else array


def packed(value: dict[Any, Any] | list[dict[Any, Any]]) -> Mapping[str, Any]:
    """Return maps as plain data, whose keys keep their type: keys of objects in JSON are texts."""
    single = isinstance(value, dict)
    return {"maps": [[*each.items()] for each in ([value] if single else value)], "single": single}


def unpacked(data: Mapping[str, Any]) -> dict[Any, Any] | list[dict[Any, Any]]:
    """Return the maps of plain data."""
    maps = [dict(items) for items in data["maps"]]
    return maps[0] if data["single"] else maps
