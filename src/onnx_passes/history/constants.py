"""Summaries of constants, made while their tensors exist: a record of a run keeps no tensors."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.core.plain import finite

Number = float | int
Array = np.ndarray[Any, Any]

_FEW = 16
"""Largest number of elements that are all kept."""
_SAMPLE = 4096
"""Number of elements beyond which only every n-th is read."""
_BINS = 24
_PLAIN = "biuf"
"""Kinds of numpy element types that can be sorted and counted."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The content of a tensor: all elements of a small one, otherwise bounds and a histogram.

    ``sample`` is the number of inspected elements if these were not all.
    """

    type: ir.DataType
    shape: tuple[object, ...]
    bytes: int
    values: tuple[Number | str, ...] = ()
    min: Number | None = None
    max: Number | None = None
    zeros: int = 0
    distinct: int = 0
    counts: tuple[int, ...] = ()
    sample: int = 0

    def __str__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"{type_name(self.type)}[{shape}]" + (f"({', '.join(map(str, self.values))})" if self.values else "")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without empty entries."""
        data: dict[str, Any] = {"bytes": self.bytes}
        if self.values:
            return {**data, **_listed(self.values)}
        if self.min is not None and self.max is not None:
            data |= {"min": finite(self.min), "max": finite(self.max)}
            data |= {"distinct": self.distinct, "zeros": self.zeros}
        if self.counts:
            data["histogram"] = {"from": self.min, "to": self.max, "counts": list(self.counts)}
        if self.sample:
            data["sample"] = self.sample
        return data


class Constants:
    """Summaries of tensor objects, computed once while the object exists."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Constant]] = {}

    def of(self, tensor: ir.TensorProtocol) -> Constant:
        """Return the summary of a tensor."""
        key = id(tensor)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        found = summarize(tensor)
        try:
            self._known[key] = weakref.ref(tensor, lambda _: self._known.pop(key, None)), found
        except TypeError:
            # Foreign tensors may not allow weak references: they are summarized every time.
            return found
        return found


def summarize(tensor: ir.TensorProtocol) -> Constant:
    """Summarize a tensor; only a sample of a large one is read."""
    dtype = tensor.dtype
    try:
        array = cast(Array, tensor.numpy())
    except (OSError, ValueError):
        # The file with its data is missing; the run itself will report that if it matters.
        return Constant(dtype, tuple(tensor.shape), tensor.nbytes)
    # The array stores its size, a tensor computes it each time; but packed elements take more space in an array.
    is_plain = array.dtype.kind in _PLAIN
    head = dtype, array.shape, array.nbytes if is_plain else tensor.nbytes
    if array.size <= _FEW:
        return Constant(*head, tuple([_value(item) for item in array.reshape(-1).tolist()]))
    if not is_plain and array.dtype.kind in "cO":
        return Constant(*head)
    elements = _sampled(array.reshape(-1))
    sample = elements.size if elements.size < array.size else 0
    return Constant(*head, **_statistics(elements if is_plain else elements.astype(np.float32)), sample=sample)


def type_name(dtype: ir.DataType) -> str:
    """Return the numpy name of an element type."""
    return "string" if dtype is ir.DataType.STRING else str(dtype.numpy())


def _sampled(array: Array) -> Array:
    # An odd stride does not always hit the same channel.
    return array[:: array.size // _SAMPLE | 1] if array.size > _SAMPLE else array


def _value(item: object) -> Number | str:
    if type(item) is int or type(item) is float:
        return item
    if isinstance(item, bytes):
        return item.decode(errors="replace")
    return int(item) if isinstance(item, bool) else _number(item) if isinstance(item, np.generic) else str(item)


def _number(item: Any) -> Number | str:
    """Convert an element of a type without a numpy name."""
    try:
        return float(item)
    except (TypeError, ValueError):
        return str(item)


def _listed(values: tuple[Number | str, ...]) -> dict[str, Any]:
    """Return the elements of a small tensor as plain data, with their bounds."""
    data: dict[str, Any] = {"values": finite(values)}
    numbers = [value for value in values if not isinstance(value, str) and value == value]
    if numbers:
        data |= {"min": finite(min(numbers)), "max": finite(max(numbers))}
        data |= {"distinct": len(set(numbers)), "zeros": numbers.count(0)}
    return data


def _statistics(elements: Array) -> dict[str, Any]:
    ordered = np.sort(elements.astype(np.uint8) if elements.dtype.kind == "b" else elements)
    zeros = int(np.count_nonzero(ordered == 0))
    if ordered.dtype.kind == "f" and ordered[-1] != ordered[-1]:
        ordered = ordered[: int(np.count_nonzero(ordered == ordered))]
        if not ordered.size:
            return {"min": math.nan, "max": math.nan}
    low, high = ordered[0].item(), ordered[-1].item()
    found = {"min": low, "max": high, "zeros": zeros}
    found["distinct"] = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if low < high and math.isfinite(high - low):
        edges = np.linspace(float(low), float(high), _BINS + 1)[1:-1]
        places = [0, *np.searchsorted(ordered, edges).tolist(), ordered.size]
        found["counts"] = tuple(after - before for before, after in pairwise(places))
    return found
