"""Data types of the results of quantizers."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.datatypes import BIPOLAR, DataType, Integer, IntegerType, MiniFloat, Range, ScaledInteger, parse
from onnx_passes.datatypes.ranges import ZERO
from onnx_passes.datatypes.smallest import integer_ends
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.datatypes.elementwise import given
from onnx_passes.passes.datatypes.facts import DATATYPES, QUANTIZED_DOMAINS, Fact, Facts

_MOST_BITS = 64


def _quant(node: ir.Node, facts: Facts) -> Fact | None:
    if len(node.inputs) < 4:
        return None
    scale, zero_point, bits = (constant(value) for value in node.inputs[1:4])
    return _integers(node, facts, scale, zero_point, bits)


def _integers(
    node: ir.Node, facts: Facts, scale: np.ndarray | None, zero_point: np.ndarray | None, bits: np.ndarray | None
) -> Fact | None:
    """Return the integers that are clamped to; others than these with a unit scale and without a zero point."""
    width = _width(bits)
    if width is None or not _all_equal(zero_point, 0):
        return None
    if not _all_equal(scale, 1):
        return None if scale is None else Fact(ScaledInteger(width))
    signed, narrow = bool(node.attributes.get_int("signed", 1)), int(bool(node.attributes.get_int("narrow", 0)))
    if signed and width == 1:
        return Fact.of(BIPOLAR)
    datatype = Integer(width, is_signed=signed)
    low, high = (datatype.min + narrow, datatype.max) if signed else (0, max(datatype.max - narrow, 0))
    # Ends that the floats of a quantizer cannot hold are rounded, and then outside of the type.
    found = facts.computed(node.outputs[0], Range(low, high))
    return Fact(datatype, found.range) if found.range == Range(low, high) else found


def _trunc(node: ir.Node, facts: Facts) -> Fact | None:
    """Divide the range, as the first version of the operator does; the second one clamps."""
    inputs = [constant(value) for value in node.inputs[1:]]
    if len(inputs) == 5:
        _, zero_point, _, scale, bits = inputs
        return None if _width(bits) == 1 else _integers(node, facts, scale, zero_point, bits)
    known = facts.of(given(node, 0)).range
    if len(inputs) != 4 or known is None or not _all_equal(inputs[0], 1) or not _all_equal(inputs[1], 0):
        return None
    before, after = _width(inputs[2]), _width(inputs[3])
    if before is None or after is None or before < after:
        return None
    return Fact.between(Range(known.low >> (before - after), -(-known.high >> (before - after))))


def _bipolar_quant(node: ir.Node, facts: Facts) -> Fact | None:
    scale = constant(given(node, 1))
    if scale is None:
        return None
    return Fact.of(BIPOLAR) if _all_equal(scale, 1) else Fact(ScaledInteger(1))


def _float_quant(node: ir.Node, facts: Facts) -> Fact | None:
    """Infinities and NaN are no values of a small float; a bias of 0 has no name, as QONNX takes it for none."""
    arrays = [constant(value) for value in node.inputs[1:5]]
    if len(arrays) < 4 or not _all_equal(arrays[0], 1):
        return None
    parameters = [_integer(array) for array in arrays[1:]]
    special = node.attributes.get_int("has_inf", 0) or node.attributes.get_int("has_nan", 0)
    if None in parameters or (special and not node.attributes.get_int("saturation", 1)):
        return None
    exponent, mantissa, bias = (int(number) for number in parameters if number is not None)
    try:
        datatype = MiniFloat(exponent, mantissa, bias)
    except UsageError:
        return None
    return Fact(datatype) if parse(str(datatype)) == datatype else None


def _multi_threshold(node: ir.Node, facts: Facts) -> Fact | None:
    """Count thresholds: as many steps from the bias as there are."""
    facts.of(given(node, 1))
    scale, bias = node.attributes.get_float("out_scale", 1.0), node.attributes.get_float("out_bias", 0.0)
    shape, declared = static_shape(given(node, 1)), _out_dtype(node)
    if not (scale.is_integer() and bias.is_integer()):
        return None
    if not shape:
        return None if declared is None else Fact.of(declared)
    if given(node, 2) is not None:
        return _weighted(node, int(bias))
    results = bias + scale * np.arange(shape[-1] + 1)
    range_ = Range(int(results.min()), int(results.max()))
    if isinstance(declared, IntegerType) and bool(declared.allowed(results).all()):
        return Fact(declared, range_)
    return Fact.between(range_)


def _weighted(node: ir.Node, bias: int) -> Fact | None:
    """Add weights up: at most all that are positive, at least all that are negative, of any function."""
    thresholds, weights = constant(given(node, 1)), constant(given(node, 2))
    ends = None if weights is None else integer_ends(weights)
    if thresholds is None or weights is None or ends is None:
        return None
    steps = np.broadcast_to(weights, thresholds.shape).astype(np.int64)
    low, high = np.minimum(steps, 0).sum(axis=-1).min(), np.maximum(steps, 0).sum(axis=-1).max()
    return Fact.between(Range(bias + int(low), bias + int(high)))


def _out_dtype(node: ir.Node) -> DataType | None:
    name = node.attributes.get_string("out_dtype", "")
    try:
        return parse(name) if name else None
    except UsageError as error:
        raise ModelError(error.what, where=f"out_dtype of {name_of(node)}", hint=error.hint) from error


def _average_pool(node: ir.Node, facts: Facts) -> Fact | None:
    bits = node.attributes.get_int("obits", 0)
    return Fact.of(Integer(bits, is_signed=bool(node.attributes.get_int("signed", 0)))) if bits > 0 else None


def _dequantize_linear(node: ir.Node, facts: Facts) -> Fact | None:
    """Take the zero point off integers; with another scale than 1 they are scaled."""
    value, scale, zero_point = given(node, 0), constant(given(node, 1)), given(node, 2)
    known = facts.of(value).range
    if known is None or scale is None or value is None or value.dtype is None:
        return None
    if not _all_equal(scale, 1):
        return Fact(ScaledInteger(value.dtype.bitwidth))
    offset = constant(zero_point)
    if zero_point is not None and offset is None:
        return None
    ends = None if offset is None else integer_ends(offset)
    return facts.computed(node.outputs[0], known - (ZERO if ends is None else Range(*ends)))


def _width(bits: np.ndarray | None) -> int | None:
    """Return the number of bits, the largest of several, the next integer of a fractional one."""
    if bits is None or not bits.size or not np.isfinite(bits).all():
        return None
    width, least = math.ceil(float(bits.max())), float(bits.min())
    # One signed bit stands for -1 and 1, which more bits have as well.
    return width if least >= 1 and width <= _MOST_BITS else None


def _integer(array: np.ndarray | None) -> int | None:
    if array is None or array.size != 1 or not float(array.reshape(-1)[0]).is_integer():
        return None
    return int(array.reshape(-1)[0])


def _all_equal(array: np.ndarray | None, number: int) -> bool:
    return array is not None and bool((array == number).all())


DATATYPES.of("DequantizeLinear")(_dequantize_linear)
DATATYPES.attach(
    {
        "BipolarQuant": _bipolar_quant,
        "FloatQuant": _float_quant,
        "IntQuant": _quant,
        "MultiThreshold": _multi_threshold,
        "Quant": _quant,
        "QuantAvgPool2d": _average_pool,
        "Trunc": _trunc,
    },
    domains=QUANTIZED_DOMAINS,
)
