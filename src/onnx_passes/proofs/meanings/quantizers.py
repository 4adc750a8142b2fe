"""Linear quantization: a division, rounding half to even, saturation; and back."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call
from onnx_passes.proofs.meanings.elementwise import apply, cast_to

_WIDE = ir.DataType.INT32


def _parameter(call: Call, index: int) -> Tensor:
    """Return a scale or zero point in a shape that broadcasts against the first input."""
    found, rank = call.tensor(index), len(call.tensor(0).shape)
    elements, block = found.elements(call.algebra), call.get("block_size", 0) or 0
    axis = int(call.get("axis", 1))
    if block:
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


@MEANINGS.of("DequantizeLinear")
def _dequantize(call: Call) -> Tensor:
    x, scale = call.tensor(0), _parameter(call, 1)
    target = ir.DataType(call.get("output_dtype", 0) or scale.dtype)
    if target is not scale.dtype:
        raise UnsupportedError("DequantizeLinear into another type than its scale")
    if x.dtype.is_integer() and call.has(2):
        wide = [cast_to(call, tensor, _WIDE) for tensor in (x, _parameter(call, 2))]
        x = apply(call, Symbol("Sub", _WIDE, (_WIDE, _WIDE)), wide)
    number = cast_to(call, x, scale.dtype)
    return apply(call, Symbol("Mul", scale.dtype, (scale.dtype,) * 2), [number, scale])


@MEANINGS.of("QuantizeLinear")
def _quantize(call: Call) -> Tensor:
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
