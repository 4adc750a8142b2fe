"""Quant and BipolarQuant: quantize to integers of any number of bits, and to one bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.rounding import Edge, edge, round_numpy
from onnx_passes.ops.definition import Attribute, Input, define
from onnx_passes.ops.quantizer import (
    BIPOLAR_LEVELS,
    IntegerGrid,
    IntegerLevels,
    Quantizer,
    Working,
    clamped_levels,
    is_everywhere,
    parameter,
)
from onnx_passes.ops.rounding import clamp, clamp_nodes, equal, greater_or_equal, round_nodes, rounding_mode

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


_SCALE, _ZERO_POINT, _BITS = 1, 2, 3
_MOST_BITS = 52
"""More are not told apart by doubles."""


@define
class Quant(Quantizer):
    """Quantize to integers of any number of bits, and scale back.

    The result is ``(round(clamp(x / scale + zeropt)) - zeropt) * scale``. The range is ``-2^(b-1) … 2^(b-1)-1`` if
    signed, ``0 … 2^b-1`` if not; narrow, it loses its least integer if signed and its greatest if not. One signed bit
    is -1 or 1: 1 where ``x / scale + zeropt`` is not negative, -1 elsewhere and for NaN. Otherwise NaN stays NaN, and
    infinities go to the ends of the range. A bit width may be fractional; scale, zero point and bit width may each be
    computed, and differ from channel to channel.

    Versions 1 and 2 of the operator are the same.
    """

    name = "Quant"
    aliases = ("IntQuant",)
    inputs = (
        Input("x", "the values"),
        Input("scale", "the size of one step"),
        Input("zeropt", "the integer that stands for zero, or any number"),
        Input("bitwidth", "the number of bits"),
    )
    attributes = (
        Attribute("signed", "int", "whether there are negative integers", default=1),
        Attribute("narrow", "int", "whether the range is one integer smaller", default=0),
        rounding_mode("ROUND"),
    )

    def grid(self, node: ir.Node) -> IntegerGrid | None:
        """Return the integers of the widest channel; one signed bit is -1 or 1."""
        scale, zero, bits = (parameter(node, index) for index in (_SCALE, _ZERO_POINT, _BITS))
        if scale is None or zero is None or bits is None or not 1 <= float(bits.max()) <= _MOST_BITS:
            return None
        width, narrow = float(bits.max()), node.attributes.get_int("narrow", 0)
        if node.attributes.get_int("signed", 1):
            low, high = -(2 ** (width - 1)) + narrow, 2 ** (width - 1) - 1
        else:
            low, high = 0, 2**width - 1 - narrow
        return IntegerGrid(math.floor(low), max(math.ceil(high), 1), scale.astype(np.float64), zero.astype(np.float64))

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return the integers that it clamps to; one signed bit is -1 or 1, narrow or not."""
        attributes = self.checked(node)
        signed, narrow = bool(attributes["signed"]), bool(attributes["narrow"])
        bipolar = signed and is_everywhere(node, _BITS, 1)
        found = clamped_levels(node, _SCALE, _BITS, signed=signed, narrow=narrow and not bipolar)
        return BIPOLAR_LEVELS if bipolar and not isinstance(found, str) else found

    def edge(self, node: ir.Node, level: int) -> Edge | None:
        """Return where a level begins: by the way of rounding, for one signed bit at zero."""
        given = self.checked(node)
        bipolar = given["signed"] and is_everywhere(node, _BITS, 1)
        return Edge(Fraction(0), closed=True) if bipolar else edge(given["rounding_mode"], level)

    def bits(self, node: ir.Node) -> float | None:
        """Return the bit width, that of the widest channel."""
        bits = parameter(node, _BITS)
        return None if bits is None else float(bits.max())

    def signed(self, node: ir.Node) -> bool | None:
        """Return the signedness given by the attribute."""
        return bool(node.attributes.get_int("signed", 1))

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale, zero_point, bits = inputs
        signed, narrow = bool(attributes["signed"]), bool(attributes["narrow"])
        y = x / scale + zero_point
        one_bit = bits == 1 if signed else np.False_
        if one_bit.all():
            q = _sign(y)
        else:
            q = round_numpy(attributes["rounding_mode"], clamp(y, bits, signed=signed, narrow=narrow))
            if one_bit.any():
                q = np.where(one_bit, _sign(y), q)
        return (q - zero_point) * scale

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        scale, zero_point = call.input(_SCALE), call.input(_ZERO_POINT)
        known = call.constant(_ZERO_POINT)
        negative_zero = known is None or bool(((known == 0) & np.signbit(known)).any())
        # Even a zero is added: it makes a negative zero positive. It need not be subtracted.
        y = op.Add(op.Div(call.x, scale), zero_point)
        q = _integers(op, call, y, negative_zero=negative_zero)
        if known is None or known.any() or negative_zero:
            q = op.Sub(q, zero_point)
        return op.Mul(q, scale)


def _integers(op: Builder, call: Working, y: ir.Value, *, negative_zero: bool) -> ir.Value:
    signed, narrow, known = bool(call["signed"]), bool(call["narrow"]), call.constant(_BITS)
    if signed and known is not None and (known == 1).all():
        return _sign_nodes(op, call, y)
    # Of signed ranges only that of one bit ends at zero, and it is not used.
    clamped = clamp_nodes(op, call, y, _BITS, signed=signed, narrow=narrow, negative_zero=negative_zero and not signed)
    q = round_nodes(op, call, call["rounding_mode"], clamped)
    if not signed or (known is not None and not (known == 1).any()):
        return q
    one_bit = equal(op, call.input(_BITS), call.number(1)) if known is None else known == 1
    return op.Where(one_bit, _sign_nodes(op, call, y), q)


def _sign_nodes(op: Builder, call: Working, y: ir.Value) -> ir.Value:
    return op.Where(greater_or_equal(op, y, call.number(0)), call.number(1), call.number(-1))


def _sign(y: np.ndarray) -> np.ndarray:
    return np.where(y >= 0, 1, -1).astype(y.dtype)


@define
class BipolarQuant(Quantizer):
    """Quantize to ``+scale`` where x is not negative, to ``-scale`` elsewhere.

    Zero of either sign gives ``+scale``, NaN gives ``-scale``.
    """

    name = "BipolarQuant"
    inputs = (Input("x", "the values"), Input("scale", "the size of the result, for the tensor or for each channel"))

    def grid(self, node: ir.Node) -> IntegerGrid | None:
        """Return the two levels."""
        scale = parameter(node, 1)
        return None if scale is None else IntegerGrid(-1, 1, scale.astype(np.float64), np.array(0.0), step=2)

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return -1 and 1."""
        if parameter(node, 1) is None:
            return "a parameter is computed"
        return BIPOLAR_LEVELS if is_everywhere(node, 1, 1) else "its scale is not 1"

    def edge(self, node: ir.Node, level: int) -> Edge | None:
        """Return that 1 begins at zero."""
        return Edge(Fraction(0), closed=True)

    def bits(self, node: ir.Node) -> float | None:
        """Return that it is one bit."""
        return 1.0

    def signed(self, node: ir.Node) -> bool | None:
        """Return that one level is negative."""
        return True

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale = inputs
        return np.where(x >= 0, scale, -scale)

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        sign = op.Where(greater_or_equal(op, call.x, call.number(0)), call.number(1), call.number(-1))
        return op.Mul(sign, call.input(1))
