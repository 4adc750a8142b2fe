"""Fuse QuantizeLinear, Clip and DequantizeLinear into Quant."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.quant.linear import (
    DOMAINS,
    Linear,
    argument,
    bounds_of,
    dequantized,
    linear_of,
    on_axis,
    quantized_type,
    sizes_of,
    steps,
)
from onnx_passes.passes.quant.quantizer import quant
from onnx_passes.passes.quant.samples import QCDQ
from onnx_passes.passes.quant.widths import exact_width, smallest_width
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Refusal, Rewritten, no
from onnx_passes.rewrite.rule import Rule

_CLIP_TAKES_INPUTS = 11
_INT32 = np.iinfo(np.int32)


@passes.verify.equality
@passes.register(tags=("quant",))
class ConvertQcdq(Transformation, RewriteRuleSetPass):
    """Fuse QuantizeLinear and DequantizeLinear, with or without Clip between them, into Quant.

    Rewrites: ``DequantizeLinear(Clip(QuantizeLinear(x)))`` → ``Quant(x)`` of the width with the range of the integers
              less the zero point; if no width has this range, of the next wider one with a ``Clip`` after it:
              ``Clip(Quant(x, s, 0, 3), 0, 5 * s)``. ``DequantizeLinear(w)`` of constant integers → ``Quant(w * s)``,
              also with Clip.
    Refuses:  different scales or zero points on both sides; scales that are computed, not positive, or per block; types
              other than integers; half precision; an unknown rank with per-channel scales; constants that Quant would
              change, or that overflow when the zero point is subtracted.
    Exactness:bit-exact, except for NaN, which QuantizeLinear turns into the least integer and Quant keeps. Zero points
              of activations are never left to Quant: it adds them before it rounds, so that ties round differently.
              Signed quantizers get the zero point ``-0``, which makes no zero negative, as integers have none. 4-bit
              and 2-bit QuantizeLinear of ONNX Runtime overflow beyond 2³¹ steps, where Quant saturates.
    """

    needs = ("shape-inference",)
    converts = MappingProxyType(
        {
            "QuantizeLinear": "its result is not dequantized",
            "DequantizeLinear": "its input is not quantized just before",
        }
    )
    fast_math = ("nnan", "ninf")
    fuzz_hints = MappingProxyType({"models": QCDQ})

    def rules(self) -> Sequence[Rule]:
        """Return the rules for activations and for constants, each with and without Clip."""
        return [rule for domain in DOMAINS for rule in _rules(domain)]


def _rules(domain: str) -> list[Rule]:
    def quantized(op: Op, x: Var) -> Var:
        return op.QuantizeLinear(x, _domain=domain, _allow_other_inputs=True)

    def restored(op: Op, q: Var) -> Var:
        return op.DequantizeLinear(q, _domain=domain, _allow_other_inputs=True, _outputs=["y"])

    def clipped(op: Op, q: Var) -> Var:
        return op.Clip(q, _allow_other_inputs=True)

    def activation(op: Op, x: Var) -> Var:
        return restored(op, quantized(op, x))

    def clipped_activation(op: Op, x: Var) -> Var:
        return restored(op, clipped(op, quantized(op, x)))

    def clipped_constant(op: Op, q: Var) -> Var:
        return restored(op, clipped(op, q))

    # The QuantizeLinear stays while it has other consumers, and each of them gets a Quant.
    return [
        Rule(clipped_activation, _activation, name="ClippedActivation", forks="duplicate"),
        Rule(activation, _activation, name="Activation", forks="duplicate"),
        Rule(clipped_constant, _constant, name="ClippedConstant", forks="duplicate"),
        Rule(restored, _constant, name="Constant"),
    ]


def _activation(op: Builder, y: ir.Value) -> Rewritten:
    dequantize, clip, source = _chain(y)
    quantize = None if source is None else source.producer()
    assert quantize is not None
    x = argument(quantize, 0)
    dtype = quantized_type(quantize)
    first, second = linear_of(quantize), linear_of(dequantize)
    if isinstance(first, Refusal):
        return first
    if isinstance(second, Refusal):
        return second
    if x is None or x.dtype is not ir.DataType.FLOAT or dtype is None:
        return no("the input is not known to be in single precision", at=x)
    if not first.is_like(second, rank(x)):
        return no("it is quantized and dequantized with different scales or zero points", at=dequantize)
    given = on_axis(first, sizes_of(x), quantize)
    bounds = bounds_of(dtype, clip)
    if isinstance(given, Refusal):
        return given
    if isinstance(bounds, Refusal):
        return bounds
    if not (np.isfinite(given.scale).all() and (given.scale > 0).all()):
        return no("a scale is not positive", at=quantize)
    return _quantized(op, x, given, bounds)


def _quantized(op: Builder, x: ir.Value, given: Linear, bounds: tuple[int, int]) -> Rewritten:
    """Build an exact Quant without a zero point, and a Clip if no width has the remaining range."""
    scale, zero = given.spread(rank(x) or 0)
    lows, highs = bounds[0] - zero, bounds[1] - zero
    low, high = int(lows.min()), int(highs.max())
    width = (exact_width(low, high) if zero.min() == zero.max() else None) or smallest_width(low, high)
    # Subtracting a zero point of -0.0 turns results of -0.0 into 0.0.
    result = quant(op, x, scale, np.array(-0.0 if width.signed else 0.0, np.float32), width)
    if (lows == width.bounds[0]).all() and (highs == width.bounds[1]).all():
        return result
    least, greatest = (np.asarray(bound.astype(np.float32) * scale, np.float32) for bound in (lows, highs))
    if least.ndim == 0 and op.opset >= _CLIP_TAKES_INPUTS:
        return op.Clip(result, least, greatest)
    return op.Min(op.Max(result, least), greatest)


def _constant(op: Builder, y: ir.Value) -> Rewritten:
    dequantize, clip, source = _chain(y)
    tensor = constant_tensor(source)
    if tensor is None:
        return no("the input is neither constant nor quantized just before", at=source)
    given = linear_of(dequantize)
    if isinstance(given, Refusal):
        return given
    given = on_axis(given, tensor.shape.numpy(), dequantize)
    bounds = bounds_of(tensor.dtype, clip)
    if isinstance(given, Refusal):
        return given
    if isinstance(bounds, Refusal):
        return bounds
    integers = np.clip(tensor.numpy().astype(np.int64), *bounds)
    scale, zero = given.spread(integers.ndim)
    if tensor.dtype is ir.DataType.INT32 and np.abs(integers - zero).max(initial=0) > _INT32.max:
        return no("integers less the zero point exceed 32 bits, in which runtimes subtract", at=source)
    values = dequantized(integers, scale, zero)
    width = exact_width(*bounds) or smallest_width(*bounds)
    if not np.array_equal(np.rint(steps(values, scale, zero, width.bounds)), integers.astype(np.float32)):
        return no("quantizing the dequantized values does not restore the integers", at=source)
    name = None if source is None else f"{source.name}_dequantized"
    return quant(op, op.initializer(values, name), scale, zero.astype(np.float32), width)


def _chain(y: ir.Value) -> tuple[ir.Node, ir.Node | None, ir.Value | None]:
    """Return the DequantizeLinear, the Clip before it, if any, and the input of both."""
    dequantize = y.producer()
    assert dequantize is not None
    source = argument(dequantize, 0)
    node = None if source is None else source.producer()
    if node is not None and node.domain == "" and node.op_type == "Clip":
        return dequantize, node, argument(node, 0)
    return dequantize, None, source
