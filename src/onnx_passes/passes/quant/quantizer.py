"""Quant: build it, and read its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.passes.quant.linear import argument, not_constant
from onnx_passes.passes.quant.widths import Width
from onnx_passes.rewrite.refusal import Refusal, no

DOMAIN = "qonnx.custom_op.general"
_MOST_BITS = 32


@dataclass(frozen=True, eq=False)
class QuantParameters:
    """Constant parameters of a Quant; scale and zero point still broadcast."""

    scale: np.ndarray
    zero: np.ndarray
    width: Width
    rounding: str
    shape: tuple[int, ...]
    """The shape to which all parameters, bit widths included, broadcast."""


def quant(op: Builder, x: ir.Value, scale: Any, zero: np.ndarray, width: Width) -> ir.Value:
    """Build a Quant that rounds half to even."""
    return op.Quant(
        x,
        scale,
        zero,
        np.array(width.bits, np.float32),
        _domain=DOMAIN,
        signed=int(width.signed),
        narrow=int(width.narrow),
        rounding_mode="ROUND",
    )


def quantizer_of(node: ir.Node) -> QuantParameters | Refusal:
    """Return the parameters of a Quant, or the reason why they are not supported."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return no("an attribute refers to the enclosing function", at=node)
    given = [constant(argument(node, index)) for index in (1, 2, 3)]
    scale, zero, bits = given
    if scale is None or zero is None or bits is None:
        missing = [array is None for array in given].index(True)
        which = ("scale", "zero point", "bit width")[missing]
        return not_constant(argument(node, missing + 1), which)
    if not (scale.size and zero.size and bits.size):
        return no("a parameter is empty", at=node)
    if bits.min() != bits.max():
        return no("bit widths are per channel", at=node)
    number = float(bits.flat[0])
    if not number.is_integer() or not 1 <= number <= _MOST_BITS:
        return no(f"there is no integer type of {number:g} bits", at=node)
    attributes = node.attributes
    signed, narrow = bool(attributes.get_int("signed", 1)), bool(attributes.get_int("narrow", 0))
    rounding = attributes.get_string("rounding_mode", "ROUND").upper()
    width = Width(int(number), signed, narrow)
    shape = np.broadcast_shapes(scale.shape, zero.shape, bits.shape)
    return QuantParameters(scale, zero, width, "ROUND" if rounding == "HALF_EVEN" else rounding, shape)
