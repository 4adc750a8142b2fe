"""Words for the order of axes, and what changes it, in every version from opset 9 on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_INPUTS_INSTEAD_OF_ATTRIBUTES = {"Pad": 11, "Slice": 10}


def channels_first(op: Builder, x: ir.Value, axes: int) -> ir.Value:
    """Bring the last of so many axes to the second place."""
    return x if axes <= 2 else op.Transpose(x, perm=[0, axes - 1, *range(1, axes - 1)])


def channels_last(op: Builder, x: ir.Value, axes: int) -> ir.Value:
    """Bring the second of so many axes to the last place."""
    return x if axes <= 2 else op.Transpose(x, perm=[0, *range(2, axes), 1])


def pad(op: Builder, x: ir.Value, pads: Sequence[int], value: np.ndarray) -> ir.Value:
    """Add elements at the starts and ends of axes, as ONNX orders them."""
    if not any(pads):
        return x
    if op.opset < _INPUTS_INSTEAD_OF_ATTRIBUTES["Pad"]:
        return op.Pad(x, pads=list(pads), value=float(value))
    return op.Pad(x, np.array(pads, np.int64), value)


def part(op: Builder, x: ir.Value, axis: int, start: int, end: int) -> ir.Value:
    """Take a part of one axis."""
    if op.opset < _INPUTS_INSTEAD_OF_ATTRIBUTES["Slice"]:
        return op.Slice(x, starts=[start], ends=[end], axes=[axis])
    return op.Slice(x, *(np.array([number], np.int64) for number in (start, end, axis)))
