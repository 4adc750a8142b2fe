"""Lower operators with dynamic quantization to standard ones."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.quant.qoperator import MICROSOFT, SATURATING, Parts, columns, taking_apart
from onnx_passes.passes.quant.samples import DYNAMIC
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register(tags=("quant",))
class ConvertDynamicQuantization(Transformation, RewriteRuleSetPass):
    """Lower operators that multiply quantized values and return floats to standard operators.

    Rewrites: ``DynamicQuantizeMatMul(x, b)`` → ``Cast(MatMulInteger(q, b)) * (s * b_scale)`` and a bias, if any, with
              ``q, s = DynamicQuantizeLinear(x)``; ``MatMulIntegerToFloat(a, b)`` likewise if a scale or zero point is
              computed, and → ``MatMul(DequantizeLinear(a), DequantizeLinear(b))`` if all are constant.
    Refuses:  ``DynamicQuantizeLSTM``; with constant scales, sums of uint8 times int8 that ONNX Runtime saturates on
              processors without VNNI, unless ``saturating``; scales that are neither one number nor one per column;
              opsets below 11.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    converts = MappingProxyType(
        {
            "DynamicQuantizeLSTM": "LSTM does not quantize its state in every step",
            "DynamicQuantizeMatMul": "",
            "MatMulIntegerToFloat": "",
        }
    )
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"models": DYNAMIC})

    saturating: bool = option(default=False, help=SATURATING)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            taking_apart("MatMulIntegerToFloat", _integer_to_float, MICROSOFT, saturating=self.saturating),
            taking_apart("DynamicQuantizeMatMul", _dynamic_matmul, MICROSOFT, saturating=self.saturating),
        ]


def _integer_to_float(parts: Parts) -> Rewritten:
    if any(parts.is_computed(index) for index in (2, 3, 4, 5)):
        found = _product(parts, parts.given(0), parts.given(2), parts.value(4), parts.given(3), parts.value(5))
        return _with_bias(parts, found, 6)
    parts.refuse_saturation(parts.type_of(0, 4), columns(parts, 1), parts.type_of(1, 5))
    left, right = parts.real(0, parameters=(2, 4)), parts.real(1, axis=-1, parameters=(3, 5))
    return _with_bias(parts, parts.op.MatMul(left, right), 6)


def _dynamic_matmul(parts: Parts) -> Rewritten:
    if parts.op.opset < 11:
        parts.decline("DynamicQuantizeLinear needs opset 11: convert-opset{version=11} first")
    integers, scale, zero = parts.op.DynamicQuantizeLinear(parts.given(0), _outputs=3)
    found = _product(parts, integers, scale, zero, parts.given(2), parts.value(3))
    return _with_bias(parts, found, 4)


def _product(
    parts: Parts, left: ir.Value, left_scale: ir.Value, left_zero: Any, right_scale: ir.Value, right_zero: Any
) -> ir.Value:
    """Build the integer product and scale it, so that dynamically quantized values stay integers."""
    if any((rank(scale) or 0) > 1 for scale in (left_scale, right_scale)):
        parts.decline("scales vary along other axes than the columns")
    if left_zero is None and right_zero is not None:
        left_zero = np.zeros((), (left.dtype or ir.DataType.UINT8).numpy())
    zeros = [zero for zero in (left_zero, right_zero) if zero is not None]
    sums = parts.op.Cast(parts.op.MatMulInteger(left, parts.given(1), *zeros), to=ir.DataType.FLOAT)
    return parts.op.Mul(sums, parts.op.Mul(left_scale, right_scale))


def _with_bias(parts: Parts, product: ir.Value, index: int) -> ir.Value:
    bias = parts.value(index)
    return product if bias is None else parts.op.Add(product, bias)
