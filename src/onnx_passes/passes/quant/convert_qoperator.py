"""Lower operators on quantized values to float operators between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.constants import constant
from onnx_passes.passes.quant.qoperator import MICROSOFT, SATURATING, Build, Parts, columns, taking_apart
from onnx_passes.passes.quant.samples import QOPERATOR
from onnx_passes.rewrite.leftovers import ANY
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten
from onnx_passes.rewrite.rule import Rule


@passes.verify.tolerance(atol=1.0)
@passes.register(tags=("quant",))
class ConvertQoperator(Transformation, RewriteRuleSetPass):
    """Lower ONNX Runtime's operators on quantized values to float operators.

    Rewrites: ``QLinearConv(x, w)`` → ``QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w)))``; QLinearMatMul,
              QGemm, QLinearAdd, QLinearMul, QLinearConcat, QLinearAveragePool, QLinearGlobalAveragePool,
              QLinearSigmoid and QLinearLeakyRelu likewise.
    Refuses:  sums of uint8 times int8 that ONNX Runtime saturates on processors without VNNI, unless ``saturating``:
              its results are then not those of the standard; channels last; computed scales from which others are
              derived, or scales along several axes; opsets below 10, 13 for per-channel scales.
    Exactness:one step of the result where rounding differs: integers are summed exactly, floats are not. The tolerance
              of 1 is that step. Float outputs of the model are held to it, too.
    """

    needs = ("shape-inference",)
    converts = MappingProxyType({ANY: "no equivalent float operator is known"})
    fast_math = ("reassoc", "contract")
    fuzz_hints = MappingProxyType({"models": QOPERATOR})

    saturating: bool = option(default=False, help=SATURATING)

    def is_wanted(self, node: ir.Node) -> bool:
        """Return whether a node is an operator of ONNX Runtime on quantized values."""
        return node.domain in ("", MICROSOFT) and node.op_type.startswith(("QLinear", "QGemm"))

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator."""
        return [
            taking_apart("QLinearConv", _conv, saturating=self.saturating),
            taking_apart("QLinearMatMul", _matmul, saturating=self.saturating),
            taking_apart("QGemm", _gemm, MICROSOFT, saturating=self.saturating),
            taking_apart("QLinearConcat", _concat, MICROSOFT),
            *(taking_apart(f"QLinear{name}", _binary(name), MICROSOFT) for name in ("Add", "Mul")),
            *(taking_apart(f"QLinear{name}", _unary(name), MICROSOFT) for name in _UNARY),
        ]


_UNARY = ("AveragePool", "GlobalAveragePool", "Sigmoid", "LeakyRelu")


def _conv(parts: Parts) -> Rewritten:
    weights = constant(parts.value(3))
    rows = None if weights is None else weights.reshape(len(weights), -1)
    parts.refuse_saturation(parts.type_of(0, 2), rows, parts.type_of(3, 5))
    scale = parts.array(1, "scale") * parts.array(4, "scale")
    inputs = [parts.real(0), parts.real(3, axis=0), parts.bias(8, scale.reshape(-1))]
    return parts.quantized(parts.op.Conv(*_given(inputs), **parts.attributes()), 6)


def _matmul(parts: Parts) -> Rewritten:
    parts.refuse_saturation(parts.type_of(0, 2), columns(parts, 3), parts.type_of(3, 5))
    return parts.quantized(parts.op.MatMul(parts.real(0, axis=-2), parts.real(3, axis=-1)), 6)


def _gemm(parts: Parts) -> Rewritten:
    attributes = parts.node.attributes
    axis = 0 if attributes.get_int("transB", 0) else 1
    rows = columns(parts, 3) if axis else constant(parts.value(3))
    parts.refuse_saturation(parts.type_of(0, 2), rows, parts.type_of(3, 5))
    scale = parts.array(1, "scale") * parts.array(4, "scale") * np.float32(attributes.get_float("alpha", 1.0))
    inputs = [parts.real(0), parts.real(3, axis=axis), _row(parts, scale)]
    result = parts.op.Gemm(*_given(inputs), **parts.attributes())
    return result if parts.value(7) is None else parts.quantized(result, 7)


def _row(parts: Parts, scale: np.ndarray) -> ir.Value | None:
    """Dequantize the integer bias of Gemm: a row, or a matrix with scales along its last axis."""
    value = parts.value(6)
    return None if value is None else parts.dequantized(value, scale.reshape(-1), None, axis=-1)


def _concat(parts: Parts) -> Rewritten:
    values = [parts.real(index) for index in range(2, len(parts.node.inputs), 3)]
    return parts.quantized(parts.op.Concat(*values, **parts.attributes()), 0)


def _binary(name: str) -> Build:
    def build(parts: Parts) -> Rewritten:
        return parts.quantized(_operator(parts, name)(parts.real(0), parts.real(3)), 6)

    return build


def _unary(name: str) -> Build:
    def build(parts: Parts) -> Rewritten:
        if parts.node.attributes.get_int("channels_last", 0):
            parts.decline("channels are last")
        attributes = parts.attributes(without=("channels_last",))
        return parts.quantized(_operator(parts, name)(parts.real(0), **attributes), 3)

    return build


def _operator(parts: Parts, name: str) -> Callable[..., Any]:
    return getattr(parts.op, name)


def _given(inputs: Sequence[Any]) -> Sequence[Any]:
    return inputs if inputs[-1] is not None else inputs[:-1]
