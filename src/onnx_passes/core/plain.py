"""Records as plain data for JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from typing import Any, cast

Json = dict[str, Any]


def plain(value: object) -> Any:
    """Return dataclasses as mappings by field, mappings and lists as such; everything else JSON lacks becomes text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "to_json"):
        return cast(Any, value).to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "_asdict"):
        return plain(cast(Any, value)._asdict())
    if isinstance(value, Counter):
        return {str(key): count for key, count in cast("Counter[object]", value).most_common()}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple | Set):
        return [plain(item) for item in cast("list[object]", value)]
    return str(value)


def finite(data: Any) -> Any:
    """Replace NaN and infinities, which JSON lacks, by text, at any depth."""
    if isinstance(data, float):
        return data if math.isfinite(data) else str(data)
    if isinstance(data, Mapping):
        return {str(key): finite(item) for key, item in cast("Mapping[object, Any]", data).items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in cast("list[Any]", data)]
    return data
