"""Exact values of constants: real numbers that no float holds, kept next to the floats that they were rounded to.

A pass that merges scales writes the product as a constant of floats, which rounds it. It stores the exact product here,
and thresholds are computed from that. An exact value is valid as long as the constant keeps its tensor; it lives in
memory, so that constants of a model that was saved and loaded have the values of their floats.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.numbers.reals import Reals

_KEY = "onnx_passes.exact"


class _ExactValue:
    """Real numbers and the tensor that rounds them; copies of a model share both."""

    def __init__(self, tensor: ir.TensorProtocol, numbers: Reals) -> None:
        self.tensor = tensor
        self.numbers = numbers

    def __deepcopy__(self, memo: object) -> _ExactValue:
        return self


def set_exact_value(value: ir.Value, numbers: Reals) -> None:
    """Store the exact value of a constant: real numbers in its shape."""
    tensor = constant_tensor(value)
    assert tensor is not None
    assert tuple(tensor.shape.numpy()) == numbers.shape
    _meta(value)[_KEY] = _ExactValue(tensor, numbers)


def has_exact_value(value: ir.Value | None) -> bool:
    """Return whether an exact value is stored for a constant."""
    return value is not None and _stored(value) is not None


def exact_value(value: ir.Value | None) -> Reals | None:
    """Return the exact value of a constant: the stored one, else that of its bits; None if not a finite constant."""
    if value is None:
        return None
    stored = _stored(value)
    if stored is not None:
        return stored.numbers
    held = constant(value)
    return None if held is None or not _is_finite(held) else Reals.of(held)


def stored_exact_value(value: ir.Value) -> object | None:
    """Return the object that holds the stored exact value of a constant, to tell whether another one was stored."""
    return _meta(value).get(_KEY) if value.meta else None


def _stored(value: ir.Value) -> _ExactValue | None:
    stored = _meta(value).get(_KEY) if value.meta else None
    return stored if isinstance(stored, _ExactValue) and stored.tensor is constant_tensor(value) else None


def _meta(value: ir.Value) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", value.meta)


def _is_finite(held: np.ndarray) -> bool:
    return held.dtype.kind in "iub" or (held.dtype.kind == "f" and bool(np.isfinite(held).all()))
