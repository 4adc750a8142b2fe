"""Trunc: drop the lowest bits of quantized values; two versions that the number of inputs tells apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.rounding import round_numpy
from onnx_passes.ops.definition import Attribute, Input, define
from onnx_passes.ops.quantizer import IntegerLevels, Quantizer, Working, clamped_levels, parameter
from onnx_passes.ops.rounding import (
    clamp,
    clamp_nodes,
    power_of_two,
    round_half_even,
    round_nodes,
    rounding_mode,
    two_to_the,
)

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_SCALE, _ZERO_POINT, _IN_BITS = 1, 2, 3
_OUT_BITS_1 = 4
_OUT_SCALE, _OUT_BITS = 4, 5
_INPUTS = (
    Input("x", "the values, as a quantizer left them"),
    Input("scale", "the size of one step of the values"),
    Input("zeropt", "the integer that stands for zero"),
    Input("in_bitwidth", "the number of bits of the values"),
)


@define
class TruncToBits(Quantizer):
    """Drop the lowest bits of quantized values; version 1, which has five inputs.

    The integers ``n = round_half_even(x / scale + zeropt)`` are divided by ``2^(in_bitwidth - out_bitwidth)`` and
    rounded; the result ``(n - zeropt) * scale`` keeps the scale of the values, so it is smaller by that factor.
    Nothing is clamped.
    """

    name = "Trunc"
    inputs = (*_INPUTS, Input("out_bitwidth", "the number of bits to keep"))
    attributes = (rounding_mode("FLOOR"),)

    def takes(self, node: ir.Node) -> bool:
        """Return whether a node is of this version."""
        return len(node.inputs) <= len(self.inputs)

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return the reason why the operator has no levels: it does not clamp."""
        return "what it rounds to has no bounds"

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits that are kept."""
        return _bits(node, _OUT_BITS_1)

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale, zero_point, in_bits, out_bits = inputs
        n = np.rint(x / scale + zero_point) / two_to_the(in_bits - out_bits)
        return (round_numpy(attributes["rounding_mode"], n) - zero_point) * scale

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        scale, zero_point = call.input(_SCALE), call.input(_ZERO_POINT)
        in_bits, out_bits = call.constant(_IN_BITS), call.constant(_OUT_BITS_1)
        if in_bits is None or out_bits is None:
            dropped = op.Sub(call.input(_IN_BITS), call.input(_OUT_BITS_1))
            factor = power_of_two(op, dropped, call.dtype)
        else:
            factor = two_to_the(np.asarray(in_bits - out_bits))
        n = round_half_even(op, call, op.Add(op.Div(call.x, scale), zero_point))
        n = round_nodes(op, call, call["rounding_mode"], op.Div(n, factor))
        return op.Mul(op.Sub(n, zero_point), scale)


@define
class Trunc(Quantizer):
    """Drop the lowest bits of quantized values; version 2, which has six inputs.

    The integers ``n = round_half_even(x / scale + zeropt)`` are divided by ``t = 2^round(log2(out_scale / scale))``,
    clamped to the range of ``out_bitwidth`` as Quant does, but with -1 and 0 for one signed bit, and rounded; the
    result is ``(n - zeropt / t) * out_scale``. The number of bits of the values has no influence.
    """

    name = "Trunc"
    inputs = (
        *_INPUTS,
        Input("out_scale", "the size of one step of the result: a power of two times that of the values"),
        Input("out_bitwidth", "the number of bits of the result"),
    )
    attributes = (
        Attribute("signed", "int", "whether there are negative integers", default=1),
        Attribute("narrow", "int", "whether the range is one integer smaller", default=0),
        rounding_mode("FLOOR"),
    )

    def takes(self, node: ir.Node) -> bool:
        """Return whether a node is of this version."""
        return len(node.inputs) >= len(self.inputs)

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return the integers that it clamps to."""
        given = self.checked(node)
        signed, narrow = bool(given["signed"]), bool(given["narrow"])
        return clamped_levels(node, _OUT_SCALE, _OUT_BITS, signed=signed, narrow=narrow)

    def bits(self, node: ir.Node) -> float | None:
        """Return the number of bits of the result."""
        return _bits(node, _OUT_BITS)

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale, zero_point, _, out_scale, bits = inputs
        factor = _factor(out_scale, scale)
        n = np.rint(x / scale + zero_point) / factor
        n = clamp(n, bits, signed=bool(attributes["signed"]), narrow=bool(attributes["narrow"]))
        return (round_numpy(attributes["rounding_mode"], n) - zero_point / factor) * out_scale

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        scale, zero_point, out_scale = call.input(_SCALE), call.input(_ZERO_POINT), call.input(_OUT_SCALE)
        known_scale, known_out_scale = call.constant(_SCALE), call.constant(_OUT_SCALE)
        if known_scale is None or known_out_scale is None:
            factor = _factor_nodes(op, call)
        else:
            with np.errstate(all="ignore"):
                factor = _factor(known_out_scale, known_scale)
        n = round_half_even(op, call, op.Add(op.Div(call.x, scale), zero_point))
        # Small negative values are a negative zero by now.
        n = clamp_nodes(
            op,
            call,
            op.Div(n, factor),
            _OUT_BITS,
            signed=bool(call["signed"]),
            narrow=bool(call["narrow"]),
            negative_zero=True,
        )
        n = round_nodes(op, call, call["rounding_mode"], n)
        return op.Mul(op.Sub(n, op.Div(zero_point, factor)), out_scale)


def _bits(node: ir.Node, index: int) -> float | None:
    bits = parameter(node, index)
    return None if bits is None else float(bits.max())


def _factor(out_scale: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the power of two nearest to the quotient; the logarithm is rounded to the type that is computed in."""
    quotient = np.asarray(out_scale / scale)
    return two_to_the(np.rint(np.log2(quotient.astype(np.float64)).astype(quotient.dtype)))


def _factor_nodes(op: Builder, call: Working) -> ir.Value:
    quotient = op.Div(call.input(_OUT_SCALE), call.input(_SCALE))
    logarithm = op.Div(op.Log(op.Cast(quotient, to=ir.DataType.DOUBLE)), np.array(np.log(2.0)))
    exponent = round_half_even(op, call, op.Cast(logarithm, to=call.dtype))
    return power_of_two(op, exponent, call.dtype)
