"""What a rewrite touches: the element types and ranks that a certificate must cover to speak of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True)
class Extent:
    """Element types and ranks of data, and the operator set; ``unknown`` says that of some value they are not known."""

    types: frozenset[str]
    ranks: frozenset[int]
    opset: int
    unknown: bool = False


def extent_of(values: Iterable[ir.Value], opset: int) -> Extent:
    """Return what values are like; those that only say how to move data, such as axes and shapes, do not count."""
    data = [value for value in values if not _is_structural(value)]
    types = {_name(value.dtype) for value in data if value.dtype is not None}
    ranks = {len(value.shape) for value in data if value.shape is not None}
    unknown = any(value.dtype is None or value.shape is None for value in data)
    return Extent(frozenset(types), frozenset(ranks), opset, unknown)


def _is_structural(value: ir.Value) -> bool:
    """Tell whether a value is a constant vector of whole numbers, or a single one."""
    known = value.const_value
    return known is not None and known.dtype is ir.DataType.INT64 and len(known.shape) <= 1


def _name(dtype: ir.DataType) -> str:
    return dtype.name.lower()
