"""Lower MatMulInteger and ConvInteger to float operators, where floats are exact."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.options import option
from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, static_shape
from onnx_passes.graph.traits import traits_of
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.quant.qoperator import SATURATING, Parts, columns, taking_apart
from onnx_passes.passes.quant.samples import PRODUCTS
from onnx_passes.passes.quant.widths import type_bounds
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten
from onnx_passes.rewrite.rule import Rule

_GREATEST_UNSIGNED_PAIR = 255
"""128 times this fits into 16 bits."""


@passes.verify.equality
@passes.register(tags=("quant",))
class ConvertIntegerProduct(Transformation, RewriteRuleSetPass):
    """Lower MatMulInteger and ConvInteger to products of floats that hold integers.

    Rewrites: ``MatMulInteger(a, b)`` → ``Cast(MatMul(DequantizeLinear(a), DequantizeLinear(b)))`` with scale one;
              ``ConvInteger(x, w)`` → ``Cast(Conv(DequantizeLinear(x), DequantizeLinear(w)))``.
    Refuses:  computed zero points, as in dynamic quantization, and inputs from a QuantizeLinear with a scale other than
              1, since the result would not show any more that the product is of integers; sums that may exceed 2²⁴, by
              constant weights, sizes and types; sums of uint8 times int8 that ONNX Runtime saturates on processors
              without VNNI, unless ``saturating``; zero points for each row; opsets below 10, 13 for zero points of
              channels.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    converts = MappingProxyType(
        {
            "ConvInteger": "",
            "MatMulInteger": "",
        }
    )
    fuzz_hints = MappingProxyType({"models": PRODUCTS})

    saturating: bool = option(default=False, help=SATURATING)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            taking_apart("MatMulInteger", _matmul, saturating=self.saturating),
            taking_apart("ConvInteger", _conv, saturating=self.saturating),
        ]


def _matmul(parts: Parts) -> Rewritten:
    parts.refuse_saturation(parts.type_of(0, 2), columns(parts, 1), parts.type_of(1, 3))
    weights = _differences(parts, -1)
    if weights is None:
        terms = dimension(parts.given(0), -1) or dimension(parts.given(1), -2)
        total = None if terms is None else terms * _greatest(parts, 1)
    else:
        total = int(weights.sum(-2).max(initial=0)) if weights.ndim > 1 else int(weights.sum())
    return _product(parts, "MatMul", total, -1)


def _conv(parts: Parts) -> Rewritten:
    given = constant(parts.value(1))
    rows = None if given is None else given.reshape(len(given), -1)
    # ConvInteger has the weights first, so that these have to be the unsigned operand.
    parts.refuse_saturation(parts.type_of(1, 3), rows, parts.type_of(0, 2), _GREATEST_UNSIGNED_PAIR)
    weights, shape = _differences(parts, 0), static_shape(parts.given(1))
    if weights is None:
        total = None if shape is None else int(np.prod(shape[1:])) * _greatest(parts, 1)
    else:
        total = int(weights.reshape(weights.shape[0], -1).sum(1).max(initial=0)) if weights.size else 0
    return _product(parts, "Conv", total, 0)


def _product(parts: Parts, operator: str, total: int | None, axis: int) -> Rewritten:
    if parts.is_computed(2) or parts.is_computed(3):
        parts.decline("a zero point is computed: the product stays one of integers")
    quantizer = _scaling_quantizer(parts.given(0)) or _scaling_quantizer(parts.given(1))
    if quantizer is not None:
        parts.decline(f"{name_of(quantizer)} has a scale other than 1: the product stays one of integers")
    if 0 in (parts.given(1).shape or ()):
        parts.decline("the contracted axis is empty, and ONNX Runtime leaves the result uninitialized")
    if total is None or total * _greatest(parts, 0) >= EXACT_IN_FLOAT:
        parts.decline("sums may exceed 2^24, beyond which single precision does not hold all integers")
    one = np.ones((), np.float32)
    left = parts.dequantized(parts.given(0), one, parts.value(2))
    right = parts.dequantized(parts.given(1), one, parts.value(3), axis)
    product = getattr(parts.op, operator)(left, right, **parts.attributes())
    return parts.op.Cast(product, to=ir.DataType.INT32)


def _scaling_quantizer(value: ir.Value) -> ir.Node | None:
    """Return the QuantizeLinear that produces the integers of a value; None if there is none, or its scale is 1.

    Its integers are multiples of the scale. Dequantizing them without it would not give a quantizer of QONNX.
    """
    producer = value.producer()
    while producer is not None and traits_of(producer).kind in ("movement", "pooling"):
        first = producer.inputs[0]
        producer = None if first is None else first.producer()
    if producer is None or producer.op_type != "QuantizeLinear":
        return None
    scale = constant(producer.inputs[1])
    return producer if scale is None or not bool((scale == 1).all()) else None


def _differences(parts: Parts, axis: int) -> np.ndarray | None:
    """Return the distances of constant weights from their zero point; None if they are not constant."""
    weights, zero = constant(parts.value(1)), parts.value(3)
    zeros = np.zeros((), np.int64) if zero is None else constant(zero)
    if weights is None or zeros is None:
        return None
    if zeros.ndim > 1 and axis == 0:
        parts.decline("its zero point is neither one nor one for each channel")
    if zeros.size > 1 and zeros.ndim == 1 and axis == 0:
        zeros = zeros.reshape(-1, *[1] * (weights.ndim - 1))
    return np.abs(weights.astype(np.int64) - zeros.astype(np.int64))


def _greatest(parts: Parts, index: int) -> int:
    """Return the largest distance of a value of an input's type from its zero point."""
    dtype = parts.given(index).dtype
    low, high = (-128, 255) if dtype is None else type_bounds(dtype)
    zero = parts.value(index + 2)
    known = np.zeros((), np.int64) if zero is None else constant(zero)
    if known is None or known.size == 0:
        return high - low
    return max(high - int(known.min()), int(known.max()) - low)
