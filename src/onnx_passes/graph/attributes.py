"""Attributes of new nodes, converted from Python values to the types of the schema."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import onnx_ir as ir

_LISTS = frozenset({ir.AttributeType.INTS, ir.AttributeType.FLOATS})


def make_attributes(given: Mapping[str, Any], wanted: Mapping[str, ir.AttributeType]) -> list[ir.Attr]:
    """Convert attributes; ``None`` omits one, attributes unknown to the schema are typed by their value."""
    return [
        _renamed(value, name) if isinstance(value, ir.Attr) else _attribute(name, value, wanted.get(name))
        for name, value in given.items()
        if value is not None
    ]


def _attribute(name: str, value: Any, wanted: ir.AttributeType | None) -> ir.Attr:
    """Convert common kinds directly, the rest by onnx_ir's slow conversion."""
    if wanted in _LISTS and isinstance(value, list | tuple | np.ndarray):
        items = cast(Iterable[Any], value)
        if wanted is ir.AttributeType.INTS:
            return ir.AttrInt64s(name, [operator.index(item) for item in items])
        return ir.AttrFloat32s(name, [float(item) for item in items])
    if isinstance(value, np.ndarray):
        return ir.AttrTensor(name, cast(Any, ir.Tensor)(value))
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        number = cast(float, value)
        is_float = isinstance(value, float | np.floating) or wanted is ir.AttributeType.FLOAT
        return ir.AttrFloat32(name, float(number)) if is_float else ir.AttrInt64(name, int(number))
    return ir.convenience.convert_attributes({name: value})[0]


def _renamed(attribute: ir.Attr, name: str) -> ir.Attr:
    """Return an attribute of another node under a new name."""
    if attribute.name == name:
        return attribute
    if attribute.is_ref():
        assert attribute.ref_attr_name is not None
        return ir.RefAttr(name, attribute.ref_attr_name, attribute.type)
    return ir.Attr(name, attribute.type, attribute.value)
