"""Put float operators on dequantized values in the place of operators that quantize as they go."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import option
from onnx_passes.core.walk import all_nodes
from onnx_passes.passes.quant.qoperator import MICROSOFT, SATURATING, Parts, columns, taking_apart
from onnx_passes.passes.quant.samples import DYNAMIC
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance
@passes.register(tags=("quant",))
class ConvertDynamicQuantization(Transformation, RewriteRuleSetPass):
    """Put float operators in the place of those that multiply quantized values and return floats.

    Rewrites: ``MatMulIntegerToFloat(a, b)`` → ``MatMul(DequantizeLinear(a), DequantizeLinear(b))`` and a bias, if any;
              ``DynamicQuantizeMatMul(x, b)`` likewise, with ``DynamicQuantizeLinear(x)`` for ``a``.
    Refuses:  ``DynamicQuantizeLSTM``; sums of uint8 times int8 that ONNX Runtime saturates on processors without VNNI,
              unless ``saturating``; scales that are neither one nor those of columns; opsets below 11.
    Exactness: rounding.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    fuzz_hints = MappingProxyType({"models": DYNAMIC})

    saturating: bool = option(default=False, help=SATURATING)

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            taking_apart("MatMulIntegerToFloat", _integer_to_float, MICROSOFT, saturating=self.saturating),
            taking_apart("DynamicQuantizeMatMul", _dynamic_matmul, MICROSOFT, saturating=self.saturating),
        ]

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Apply the rules, and say what has to stay."""
        result = super().run(model, context)
        count = sum(node.op_identifier()[:2] == (MICROSOFT, "DynamicQuantizeLSTM") for node in all_nodes(model.graph))
        if count:
            context.note(f"{count} DynamicQuantizeLSTM stay: LSTM does not quantize its state in every step")
        return result


def _integer_to_float(parts: Parts) -> Any:
    parts.refuse_saturation(parts.type_of(0, 4), columns(parts, 1), parts.type_of(1, 5))
    left, right = parts.real(0, parameters=(2, 4)), parts.real(1, axis=-1, parameters=(3, 5))
    return _with_bias(parts, parts.op.MatMul(left, right), 6)


def _dynamic_matmul(parts: Parts) -> Any:
    if parts.op.opset < 11:
        parts.decline("DynamicQuantizeLinear takes opset 11: convert-opset{version=11} first")
    parts.refuse_saturation(ir.DataType.UINT8, columns(parts, 1), parts.type_of(1, 3))
    integers, scale, zero = parts.op.DynamicQuantizeLinear(parts.given(0), _outputs=3)
    left = parts.op.DequantizeLinear(integers, scale, zero)
    right = parts.real(1, axis=-1, parameters=(2, 3))
    return _with_bias(parts, parts.op.MatMul(left, right), 4)


def _with_bias(parts: Parts, product: ir.Value, index: int) -> ir.Value:
    bias = parts.value(index)
    return product if bias is None else parts.op.Add(product, bias)
