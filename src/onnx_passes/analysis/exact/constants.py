"""What constants stand for: numbers that no float holds travel beside the floats that they were rounded to.

A pass that merges scales writes the product as a constant of floats, which rounds it. It says here what the constant
means, and who decides by it later, as thresholds do, asks here. What is said holds as long as the constant keeps its
tensor; it lives in memory, and a model that was saved means what its floats say.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.exact.reals import Reals
from onnx_passes.graph.constants import constant, constant_tensor

_KEY = "onnx_passes.exact"


class _Meaning:
    """Numbers, and the tensor that stands for them; copies of a model share both."""

    def __init__(self, tensor: ir.TensorProtocol, numbers: Reals) -> None:
        self.tensor = tensor
        self.numbers = numbers

    def __deepcopy__(self, memo: object) -> _Meaning:
        return self


def set_meaning(value: ir.Value, numbers: Reals) -> None:
    """Say what a constant stands for: real numbers in its shape."""
    tensor = constant_tensor(value)
    assert tensor is not None
    assert tuple(tensor.shape.numpy()) == numbers.shape
    _meta(value)[_KEY] = _Meaning(tensor, numbers)


def has_meaning(value: ir.Value | None) -> bool:
    """Tell whether a constant stands for other numbers than those that it holds."""
    return value is not None and _meaning(value) is not None


def meaning(value: ir.Value | None) -> Reals | None:
    """Return what a constant stands for: what was said of it, else what its bits say; nothing if it is no constant."""
    if value is None:
        return None
    said = _meaning(value)
    if said is not None:
        return said.numbers
    held = constant(value)
    return None if held is None or not _is_finite(held) else Reals.of(held)


def _meaning(value: ir.Value) -> _Meaning | None:
    said = _meta(value).get(_KEY) if value.meta else None
    return said if isinstance(said, _Meaning) and said.tensor is constant_tensor(value) else None


def _meta(value: ir.Value) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", value.meta)


def _is_finite(held: np.ndarray) -> bool:
    return held.dtype.kind in "iub" or (held.dtype.kind == "f" and bool(np.isfinite(held).all()))
