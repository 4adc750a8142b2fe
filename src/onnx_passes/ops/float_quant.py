"""FloatQuant: quantize to floating-point numbers of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.rounding import round_numpy
from onnx_passes.ops.definition import Attribute, Input, define
from onnx_passes.ops.quantizer import Quantizer, Working, parameter
from onnx_passes.ops.rounding import power_of_two, round_nodes, rounding_mode, two_to_the

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder

_SCALE, _EXPONENT_BITS, _MANTISSA_BITS, _BIAS, _LARGEST = 1, 2, 3, 4, 5


@define
class FloatQuant(Quantizer):
    """Quantize to floating-point numbers of any size, and scale back.

    ``x / scale`` is rounded to multiples of ``2^(e - M)``, where ``e`` is the exponent of ``|x / scale|`` plus the
    smallest normal number, but not less than ``1 - exponent_bias``: small numbers are subnormal. Results are kept
    within ``±min(max_val, (2 - 2^-M) * 2^(2^E - 1 - exponent_bias))``. Without saturation, what lies outside becomes
    an infinity if there are infinities, or else NaN. An infinite value gives NaN, as in QONNX.

    The exponent is exact. QONNX takes a logarithm in float32, which for the few numbers just below a power of two is
    that of the power: where rounding is not to the nearest, its result for them is on a grid twice as coarse.
    """

    name = "FloatQuant"
    to_integers = False
    inputs = (
        Input("x", "the values"),
        Input("scale", "what the values are divided by"),
        Input("exponent_bitwidth", "E, the number of bits of the exponent"),
        Input("mantissa_bitwidth", "M, the number of bits of the mantissa"),
        Input("exponent_bias", "what is subtracted from the stored exponent"),
        Input("max_val", "the largest number, where codes of larger ones mean something else"),
    )
    attributes = (
        rounding_mode("ROUND"),
        Attribute("has_inf", "int", "whether there are infinities", default=0),
        Attribute("has_infinity", "int", "another name of has_inf"),
        Attribute("has_nan", "int", "whether there is NaN", default=0),
        Attribute("has_subnormal", "int", "whether there are subnormal numbers; results always have them", default=1),
        Attribute("saturation", "int", "whether what is too large becomes the largest number", default=1),
    )

    def bits(self, node: ir.Node) -> float | None:
        """Return the bits of sign, exponent and mantissa."""
        exponent, mantissa = parameter(node, _EXPONENT_BITS), parameter(node, _MANTISSA_BITS)
        return None if exponent is None or mantissa is None else 1.0 + float(exponent.max()) + float(mantissa.max())

    def signed(self, node: ir.Node) -> bool | None:
        """Return that floats have a sign."""
        return True

    def checked(self, node: ir.Node) -> dict[str, Any]:
        """Return all attributes of a node, given or default. Raises ModelError, naming the node, for wrong ones."""
        found = super().checked(node)
        other = found.pop("has_infinity")
        if other is not None and "has_inf" not in node.attributes:
            found["has_inf"] = other
        if not (found["saturation"] or found["has_inf"] or found["has_nan"]):
            raise ModelError(
                "FloatQuant without saturation has nothing to make of large values",
                where=name_of(node),
                hint="give it saturation, has_inf or has_nan",
            )
        return found

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale, exponent_bits, mantissa_bits, bias, largest = inputs
        x = x / scale
        power = _power_below(np.abs(x) + np.finfo(x.dtype).tiny)
        least = _least_step(mantissa_bits, bias)
        step = power * two_to_the(-mantissa_bits)
        step = np.where(step < least, least, step)
        y = step * round_numpy(attributes["rounding_mode"], x / step)
        end = _end(exponent_bits, mantissa_bits, bias, largest)
        if attributes["saturation"]:
            above, below = end, -end
        else:
            above = x.dtype.type(np.inf if attributes["has_inf"] else np.nan)
            below = -above
            if not attributes["has_inf"]:
                y = np.where(np.isinf(y), above, y)
        y = np.where(y < -end, below, np.where(y > end, above, y))
        return y * scale

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        scale = call.input(_SCALE)
        x = op.Div(call.x, scale)
        step, end = _step_nodes(op, call, x), _end_nodes(op, call)
        y = op.Mul(step, round_nodes(op, call, call["rounding_mode"], op.Div(x, step)))
        lower_end = op.Neg(end) if isinstance(end, ir.Value) else -end
        if call["saturation"]:
            above, below = end, lower_end
        else:
            above, below = (call.number(sign * (np.inf if call["has_inf"] else np.nan)) for sign in (1, -1))
            if not call["has_inf"]:
                y = op.Where(op.Not(op.Less(op.Abs(y), call.number(np.inf))), above, y)
        y = op.Where(op.Less(y, lower_end), below, op.Where(op.Greater(y, end), above, y))
        return op.Mul(y, scale)


def _power_below(x: np.ndarray) -> np.ndarray:
    """Return the greatest power of two that is not greater; infinity and NaN stay."""
    _, exponent = np.frexp(x)
    return np.where(np.isfinite(x), np.ldexp(x.dtype.type(1), exponent - 1), x)


def _least_step(mantissa_bits: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return two_to_the(np.asarray(1 - bias - mantissa_bits))


def _end(exponent_bits: np.ndarray, mantissa_bits: np.ndarray, bias: np.ndarray, largest: np.ndarray) -> np.ndarray:
    greatest_exponent = np.asarray(two_to_the(exponent_bits) - 1 - bias)
    end = (2 - two_to_the(-mantissa_bits)) * two_to_the(greatest_exponent)
    return np.minimum(end, largest)


def _step_nodes(op: Builder, call: Working, x: ir.Value) -> ir.Value:
    """Build the distance of the numbers around a value.

    The logarithm may be wrong in its last bits: what comes of it is put right.
    """
    double = ir.DataType.DOUBLE
    size = op.Cast(op.Add(op.Abs(x), np.finfo(call.dtype.numpy()).tiny), to=double)
    two = np.array(2.0)
    power = op.Pow(two, op.Floor(op.Div(op.Log(size), np.array(np.log(2.0)))))
    power = op.Where(op.Greater(power, size), op.Div(power, two), power)
    twice = op.Mul(power, two)
    power = op.Cast(op.Where(op.Greater(twice, size), power, twice), to=call.dtype)
    mantissa_bits, bias = call.constant(_MANTISSA_BITS), call.constant(_BIAS)
    if mantissa_bits is None or bias is None:
        given = call.input(_MANTISSA_BITS)
        shrink = power_of_two(op, op.Neg(given), call.dtype)
        lowest = op.Sub(op.Sub(call.number(1), call.input(_BIAS)), given)
        least = power_of_two(op, lowest, call.dtype)
    else:
        shrink, least = two_to_the(-mantissa_bits), _least_step(mantissa_bits, bias)
    step = op.Mul(power, shrink)
    return op.Where(op.Less(step, least), least, step)


def _end_nodes(op: Builder, call: Working) -> ir.Value | np.ndarray:
    known = [call.constant(index) for index in (_EXPONENT_BITS, _MANTISSA_BITS, _BIAS, _LARGEST)]
    constants = [array for array in known if array is not None]
    if len(constants) == len(known):
        with np.errstate(over="ignore"):
            return _end(*constants)
    one, two = call.number(1), call.number(2)
    exponent_bits = power_of_two(op, call.input(_EXPONENT_BITS), call.dtype)
    greatest = power_of_two(op, op.Sub(op.Sub(exponent_bits, one), call.input(_BIAS)), call.dtype)
    mantissa = op.Sub(two, power_of_two(op, op.Neg(call.input(_MANTISSA_BITS)), call.dtype))
    return op.Min(op.Mul(mantissa, greatest), call.input(_LARGEST))
