"""Recover the scales of quantized weights that are stored as floats."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import set_sparsity, sparsity_of
from onnx_passes.ops.quantizer import rounds_to_integers
from onnx_passes.passes.quant.quantizer import DOMAIN, quant
from onnx_passes.passes.quant.samples import STORED_WEIGHTS
from onnx_passes.passes.quant.stored_scales import Multiples, multiples
from onnx_passes.passes.quant.widths import smallest_width
from onnx_passes.rewrite.node_rule import node_rule
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_CHANNELS = {"MatMul": -1, "Gemm": -1, "Conv": 0, "ConvTranspose": 1}
"""Operators with weights as second input, and the axis of the output channels in the weights."""


@passes.verify.equality
@passes.register(tags=("quant", "streamline"))
class RecoverWeightScales(Transformation, RewriteRuleSetPass):
    """Insert quantizers after constant weights that are a scale times integers, in quantized networks.

    Rewrites: ``MatMul(x, w)`` with ``w = s * q`` → ``MatMul(x, Quant(w, s, 0, bits))``, with one scale for all weights
              or one per output channel; ``BipolarQuant`` if all integers are -1 and 1. Likewise for Gemm, Conv and
              ConvTranspose.
    Refuses:  weights that are not bit by bit a scale times integers of at most 255; networks without a quantizer.
    Exactness: bit-exact, except for the sign of zeros.
    """

    needs = ("import-qonnx", "shape-inference")
    fast_math = ("nsz",)
    fuzz_hints = MappingProxyType({"models": STORED_WEIGHTS})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each operator with weights."""
        return [node_rule(name, _quantize) for name in _CHANNELS]

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Skip networks without quantizers, in which a few equal weights are no evidence."""
        if not any(rounds_to_integers(node) for node in all_nodes(model.graph)):
            return PassResult(model, modified=False)
        return super().run(model, context)


def _quantize(op: Builder, node: ir.Node) -> Rewritten:
    w = node.inputs[1]
    weights = constant(w)
    if w is None or weights is None or weights.dtype != np.float32 or weights.ndim < 2:
        return no("the weights are not constant matrices of floats", at=w)
    if np.array_equal(weights, np.rint(weights)):
        return no("the weights are integers already", at=w)
    axis = 0 if node.attributes.get_int("transB", 0) else _CHANNELS[node.op_type]
    found = [each for each in (multiples(weights, None), multiples(weights, axis)) if each is not None]
    if not found:
        return no("the weights are not multiples of a scale", at=w)
    quantized = _quantized(op, w, min(found, key=lambda each: int(np.abs(each.integers).max())))
    return op.like(node, [node.inputs[0], quantized, *node.inputs[2:]])


def _quantized(op: Builder, w: ir.Value, found: Multiples) -> ir.Value:
    if (np.abs(found.integers) == 1).all():
        result = op.BipolarQuant(w, found.scale, _domain=DOMAIN)
    else:
        width = smallest_width(int(found.integers.min()), int(found.integers.max()))
        result = quant(op, w, found.scale, np.zeros((), np.float32), width)
    result.type, result.shape = w.type, w.shape
    set_sparsity(result, sparsity_of(w))
    return result
