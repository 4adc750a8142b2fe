"""Named data types: target types of quantizers, and types of moved numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError, UsageError
from onnx_passes.datatypes import BIPOLAR, DataType, Integer, IntegerType, MiniFloat, ScaledInteger, parse
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.passes.datatypes.facts import DATATYPES

_MOST_BITS = 64
_CHOOSES = frozenset(
    (
        *("Compress", "DebugMarker", "Dropout", "GlobalMaxPool", "Identity", "Im2Col", "MaxPool", "MaxPoolNHWC"),
        *("ReduceMax", "ReduceMin", "Resize", "Scatter", "ScatterElements", "ScatterND", "TopK", "Upsample", "Where"),
    )
)
"""Operators that return some of their input numbers, except pure movement, which has a trait."""
_SIGNS = {"Mul", "Neg", "Sign"}


def name_of_moved(node: ir.Node, operands: Sequence[DataType]) -> DataType | None:
    """Return the common type of all operands if the results are some of their numbers."""
    if not operands or any(datatype != operands[0] for datatype in operands):
        return None
    same = operands[0]
    if node.op_type in _SIGNS:
        return same if same == BIPOLAR else None
    if _adds_zeros(node) and not bool(same.allowed(np.array(0.0))):
        return None
    if node.op_type in ("Resize", "Upsample") and not _repeats(node):
        return None
    if node.op_type == "Cast":
        target = ir.DataType(node.attributes.get_int("to", 0))
        return same if target.is_floating_point() and same.fits(target.name) else None
    return same if traits_of(node).kind == "movement" or node.op_type in _CHOOSES else None


def _adds_zeros(node: ir.Node) -> bool:
    match node.op_type:
        case "Im2Col":
            return any(node.attributes.get_ints("pad_amount", ()))
        case "Pad":
            return node.attributes.get_string("mode", "constant") == "constant"
        case _:
            return node.op_type == "Trilu"


def _repeats(node: ir.Node) -> bool:
    extrapolates = node.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    return node.attributes.get_string("mode", "nearest") == "nearest" and not extrapolates


def name_of_scaled(node: ir.Node) -> DataType | None:
    """Return the integers of a quantizer with a scale; without one, the range determines the type."""
    quantizer = quantizer_of(node)
    grid = None if quantizer is None else quantizer.grid(node)
    if quantizer is None or grid is None or _all_equal(grid.scale, 1) or not _all_equal(grid.zero, 0):
        return None
    width = _width(quantizer.bits(node))
    return None if width is None else ScaledInteger(width)


@DATATYPES.of("BipolarQuant", "IntQuant", "Quant", "Trunc", domains=GENERAL_DOMAINS)
def _integers(node: ir.Node) -> DataType | None:
    """Return the integers that the quantizer clamps to; the first version of Trunc divides its input."""
    quantizer, arrays = (
        quantizer_of(node),
        [array for value in node.inputs[1:] if (array := constant(value)) is not None],
    )
    width = None if quantizer is None else _width(quantizer.bits(node))
    is_trunc = node.op_type == "Trunc"
    if width is None or len(arrays) < len(node.inputs) - 1 or (is_trunc and (len(arrays) != 5 or width == 1)):
        return None
    if not all(_all_equal(zero_point, 0) for zero_point in arrays[1:2]):
        return None
    if not _all_equal(arrays[3 if is_trunc else 0], 1):
        return ScaledInteger(width)
    signed = bool(node.attributes.get_int("signed", 1))
    return BIPOLAR if signed and width == 1 else Integer(width, is_signed=signed)


@DATATYPES.of("FloatQuant", domains=GENERAL_DOMAINS)
def _float_quant(node: ir.Node) -> DataType | None:
    """Return the minifloat type; None with infinities or NaN, and for bias 0, which QONNX reads as absent."""
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
    return datatype if parse(str(datatype)) == datatype else None


@DATATYPES.of("MultiThreshold", domains=GENERAL_DOMAINS)
def _multi_threshold(node: ir.Node) -> DataType | None:
    """Return the declared type if it contains every step from the bias on."""
    scale, bias = node.attributes.get_float("out_scale", 1.0), node.attributes.get_float("out_bias", 0.0)
    shape = static_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    declared = _out_dtype(node)
    if not (scale.is_integer() and bias.is_integer()) or len(node.inputs) > 2:
        return None
    if not shape:
        return declared
    results = bias + scale * np.arange(shape[-1] + 1)
    return declared if isinstance(declared, IntegerType) and bool(declared.allowed(results).all()) else None


def _out_dtype(node: ir.Node) -> DataType | None:
    name = node.attributes.get_string("out_dtype", "")
    try:
        return parse(name) if name else None
    except UsageError as error:
        raise ModelError(error.what, where=f"out_dtype of {name_of(node)}", hint=error.hint) from error


@DATATYPES.of("QuantAvgPool2d", domains=GENERAL_DOMAINS)
def _average_pool(node: ir.Node) -> DataType | None:
    bits = node.attributes.get_int("obits", 0)
    return Integer(bits, is_signed=bool(node.attributes.get_int("signed", 0))) if bits > 0 else None


@DATATYPES.of("DequantizeLinear")
def _dequantize_linear(node: ir.Node) -> DataType | None:
    """Return scaled integers unless the scale is 1."""
    value, scale = (node.inputs[index] if index < len(node.inputs) else None for index in (0, 1))
    held = constant(scale)
    if value is None or value.dtype is None or held is None or _all_equal(held, 1):
        return None
    return ScaledInteger(value.dtype.bitwidth)


def _width(bits: float | None) -> int | None:
    """Return the bit width of the widest channel, rounded up."""
    return math.ceil(bits) if bits is not None and 1 <= bits <= _MOST_BITS else None


def _integer(array: np.ndarray | None) -> int | None:
    if array is None or array.size != 1 or not float(array.reshape(-1)[0]).is_integer():
        return None
    return int(array.reshape(-1)[0])


def _all_equal(array: np.ndarray | None, number: int) -> bool:
    return array is not None and bool((array == number).all())
