"""Quantizers: a division, rounding, saturation; and back.

Those of quantized networks are written here for number systems that compare and round real numbers; for all others they
are the standard operators that their definitions build.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN, definition_of
from onnx_passes.ops.multi_threshold import channel_axis
from onnx_passes.ops.number_systems.real_functions import REACHED, ROUND_TO
from onnx_passes.ops.rounding import bounds
from onnx_passes.ops.semantics.elementwise import apply, cast_to
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView

_WIDE = ir.DataType.INT32


def _parameter(call: OperatorView, index: int) -> Tensor:
    """Return a scale or zero point in a shape that broadcasts against the first input."""
    found, rank = call.tensor(index), len(call.tensor(0).shape)
    elements, block = found.elements(call.algebra), call.get("block_size", 0) or 0
    axis = int(call.get("axis", 1))
    if block:
        if not isinstance(elements, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance] - or numbers alike
            raise UnsupportedError("quantization in blocks")
        elements = np.repeat(elements, block, axis)
        size = int(call.tensor(0).shape[axis])
        elements = np.take(elements, np.arange(size), axis)
    elif elements.size == 1:
        elements = elements.reshape(())
    else:
        shape = [1] * rank
        shape[axis] = -1
        elements = elements.reshape(shape)
    return Tensor(found.dtype, None, elements)


@SEMANTICS.of("DequantizeLinear")
def _dequantize(call: OperatorView) -> Tensor:
    x, scale = call.tensor(0), _parameter(call, 1)
    target = ir.DataType(call.get("output_dtype", 0) or scale.dtype)
    if target is not scale.dtype:
        raise UnsupportedError("DequantizeLinear into another type than its scale")
    if x.dtype.is_integer() and call.has(2):
        wide = [cast_to(call, tensor, _WIDE) for tensor in (x, _parameter(call, 2))]
        x = apply(call, Symbol("Sub", _WIDE, (_WIDE, _WIDE)), wide)
    number = cast_to(call, x, scale.dtype)
    return apply(call, Symbol("Mul", scale.dtype, (scale.dtype,) * 2), [number, scale])


@SEMANTICS.of("QuantizeLinear")
def _quantize(call: OperatorView) -> Tensor:
    x, scale = call.tensor(0), _parameter(call, 1)
    given = call.get("output_dtype", 0)
    target = call.tensor(2).dtype if call.has(2) else ir.DataType(given or ir.DataType.UINT8)
    if not target.is_integer() or x.dtype is not scale.dtype or target.bitwidth > 16 or not x.dtype.is_floating_point():
        raise UnsupportedError("QuantizeLinear of other types than floats to small integers")
    kind = x.dtype
    quotient = apply(call, Symbol("Div", kind, (kind, kind)), [x, scale])
    rounded = apply(call, Symbol("Round", kind, (kind,)), [quotient])
    zero = cast_to(call, _parameter(call, 2), kind) if call.has(2) else None
    ends = [Tensor(kind, np.asarray(end).astype(kind.numpy())) for end in (int(target.min), int(target.max))]
    if zero is not None:
        ends = [apply(call, Symbol("Sub", kind, (kind, kind)), [end, zero]) for end in ends]
    limited = apply(call, Symbol("Clip", kind, (kind,) * 3), [rounded, *ends])
    whole = cast_to(call, limited, _WIDE)
    if zero is not None:
        whole = apply(call, Symbol("Add", _WIDE, (_WIDE, _WIDE)), [whole, cast_to(call, _parameter(call, 2), _WIDE)])
    return cast_to(call, whole, target)


def _of(call: OperatorView, name: str, *operands: Tensor, params: tuple[Any, ...] = ()) -> Tensor:
    dtype = call.tensor(0).dtype
    return apply(call, Symbol(name, dtype, (dtype,) * len(operands), params), list(operands))


def _plain(call: OperatorView, number: np.ndarray | float) -> Tensor:
    return Tensor(call.tensor(0).dtype, np.asarray(number, np.float64))


def _attributes(call: OperatorView) -> Mapping[str, Any]:
    definition = definition_of(call.node)
    try:
        assert definition is not None
        return definition.checked(call.node)
    except ModelError as error:
        raise UnsupportedError(str(error)) from error


def _known(call: OperatorView, index: int) -> np.ndarray:
    found = call.known(index)
    if found is None:
        raise UnsupportedError(f"{call.node.op_type} lacks input {index}")
    return found.astype(np.float64)


def _rounded(call: OperatorView, x: Tensor, mode: str) -> Tensor:
    return _of(call, ROUND_TO, x, params=(mode.upper(),))


def _clamped(call: OperatorView, x: Tensor, bits: np.ndarray, given: Mapping[str, Any]) -> Tensor:
    low, high = bounds(bits, signed=bool(given["signed"]), narrow=bool(given["narrow"]))
    return _of(call, "Max", _of(call, "Min", x, _plain(call, high)), _plain(call, low))


def _sign(call: OperatorView, x: Tensor) -> Tensor:
    """Return 1 of what is not negative, and else -1."""
    return _of(call, "Sub", _of(call, REACHED, x, _plain(call, 0.0), _plain(call, 2.0)), _plain(call, 1.0))


@SEMANTICS.of("Quant", "IntQuant", domains=GENERAL_DOMAINS)
def _quant(call: OperatorView) -> Tensor:
    given, bits = _attributes(call), _known(call, 3)
    x, scale, zero = (call.tensor(index) for index in range(3))
    y = _of(call, "Add", _of(call, "Div", x, scale), zero)
    if given["signed"] and (bits == 1).any():
        if not (bits == 1).all():
            raise UnsupportedError("one bit in some channels")
        whole = _sign(call, y)
    else:
        whole = _rounded(call, _clamped(call, y, bits, given), given["rounding_mode"])
    return _of(call, "Mul", _of(call, "Sub", whole, zero), scale)


@SEMANTICS.of("BipolarQuant", domains=GENERAL_DOMAINS)
def _bipolar_quant(call: OperatorView) -> Tensor:
    return _of(call, "Mul", _sign(call, call.tensor(0)), call.tensor(1))


@SEMANTICS.of("Trunc", domains=GENERAL_DOMAINS)
def _trunc(call: OperatorView) -> Tensor:
    given = _attributes(call)
    x, scale, zero = (call.tensor(index) for index in range(3))
    whole, mode = _rounded(call, _of(call, "Add", _of(call, "Div", x, scale), zero), "ROUND"), given["rounding_mode"]
    if not call.has(5):
        factor = _plain(call, np.exp2(_known(call, 3) - _known(call, 4)))
        rest = _rounded(call, _of(call, "Div", whole, factor), mode)
        return _of(call, "Mul", _of(call, "Sub", rest, zero), scale)
    factor = _plain(call, np.exp2(np.rint(np.log2(_known(call, 4) / _known(call, 1)))))
    rest = _rounded(call, _clamped(call, _of(call, "Div", whole, factor), _known(call, 5), given), mode)
    return _of(call, "Mul", _of(call, "Sub", rest, _of(call, "Div", zero, factor)), call.tensor(4))


@SEMANTICS.of("MultiThreshold", domains=GENERAL_DOMAINS)
def _multi_threshold(call: OperatorView) -> Tensor:
    given, held, x = _attributes(call), _known(call, 1), call.tensor(0)
    weights, scale, shape = np.ones(1), 1.0, held.shape[:-1]
    if call.node.domain != OUR_DOMAIN:
        axes, scale = len(x.shape), given["out_scale"]
        shape = [1] * axes
        if len(held) > 1:
            shape[channel_axis(given["data_layout"], axes)] = len(held)
    elif call.has(2):
        weights = _known(call, 2)
    if not np.isfinite(held).all():
        raise UnsupportedError("thresholds that are infinite")
    weights = np.broadcast_to(weights, (*weights.shape[:-1], held.shape[-1]))
    total = _plain(call, 0.0)
    for step in range(held.shape[-1]):
        limit = _plain(call, held[..., step].reshape(shape))
        total = _of(call, "Add", total, _of(call, REACHED, x, limit, _plain(call, weights[..., step])))
    scaled = _of(call, "Mul", total, _plain(call, float(np.float32(scale))))
    return _of(call, "Add", scaled, _plain(call, float(np.float32(given["out_bias"]))))
