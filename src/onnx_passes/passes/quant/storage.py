"""Integer types of QuantizeLinear and DequantizeLinear for bit widths, and their clipping bounds."""

from __future__ import annotations

from typing import NamedTuple

import onnx_ir as ir

from onnx_passes.passes.export.targets import Target
from onnx_passes.passes.quant.widths import Width, type_bounds
from onnx_passes.rewrite.refusal import Refusal, no

_SMALL_TYPES = 21
"""The first opset with 4-bit and 16-bit types in QuantizeLinear and DequantizeLinear."""


class Storage(NamedTuple):
    """An integer type, and the range to clip to if it is smaller."""

    dtype: ir.DataType
    bounds: tuple[int, int]

    @property
    def has_to_clip(self) -> bool:
        """Return whether the type has integers outside the bounds."""
        return self.bounds != type_bounds(self.dtype)


def storage_of(width: Width, opset: int, *, of_constant: bool, int4: bool, target: Target) -> Storage | Refusal:
    """Return the storage type of a width: the usual one, or another one that the target supports."""
    found = _usual_storage(width, opset, of_constant=of_constant, int4=int4)
    if of_constant or isinstance(found, Refusal) or target.takes(found.dtype):
        return found
    for dtype in (ir.DataType.UINT8, ir.DataType.INT8):
        least, greatest = type_bounds(dtype)
        if target.takes(dtype) and least <= found.bounds[0] and found.bounds[1] <= greatest:
            return Storage(dtype, found.bounds)
    return no(f"{target.name} has no quantizers of {found.dtype.name}")


def _usual_storage(width: Width, opset: int, *, of_constant: bool, int4: bool) -> Storage | Refusal:
    bounds = (-1, 1) if width.is_bipolar else width.bounds
    if width.is_bipolar and not of_constant:
        return no("one signed bit is -1 or 1, and QuantizeLinear has zero as well")
    whole = opset >= _SMALL_TYPES and not width.narrow
    if width.bits == 4 and whole and int4:
        return Storage(ir.DataType.INT4 if width.signed else ir.DataType.UINT4, bounds)
    if width.bits <= 8:
        return Storage(ir.DataType.INT8 if width.signed else ir.DataType.UINT8, bounds)
    if width.bits == 16 and whole:
        return Storage(ir.DataType.INT16 if width.signed else ir.DataType.UINT16, bounds)
    if of_constant and bounds[1] < 1 << 31:
        return Storage(ir.DataType.INT32, bounds)
    if width.bits == 16:
        reason = "ONNX Runtime does not clip them" if width.narrow else f"convert-opset{{version={_SMALL_TYPES}}} first"
        return no(f"16 bits need {'their full range' if width.narrow else f'opset {_SMALL_TYPES}'}: {reason}")
    return no(f"QuantizeLinear has no type of {width.bits} bits")
