"""Hoist DequantizeLinear above data movement."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.traits import operators
from onnx_passes.passes.quant.linear import argument
from onnx_passes.passes.quant.samples import MOVED
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_FILLING = {"Pad", "Trilu"}
"""These insert zeros, but the integer zero need not represent the number zero."""
_SEVERAL = {"Concat", "Split"}
_MOVING = (*(name for name in operators("movement") if name not in _FILLING | _SEVERAL), "MaxPool")


@passes.verify.equality
@passes.register(tags=("quant",))
class MoveDequantizeUp(Transformation, RewriteRuleSetPass):
    """Hoist DequantizeLinear above data movement, towards QuantizeLinear or constants.

    Rewrites: ``DequantizeLinear(Flatten(q))`` → ``Flatten(DequantizeLinear(q))``, likewise for Reshape, Transpose,
              Slice, Gather, MaxPool and other operators that select or rearrange.
    Refuses:  per-channel scales; scales that are computed, or not positive.
    Exactness: bit-exact.
    """

    fuzz_hints = MappingProxyType({"models": MOVED})

    def rules(self) -> Sequence[Rule]:
        """Return a rule for each data movement."""
        return [_rule(name) for name in _MOVING]


def _rule(name: str) -> Rule:
    def pattern(op: Op, q: Var) -> Var:
        moved = getattr(op, name)(q, _allow_other_inputs=True, _outputs=["moved"])
        return op.DequantizeLinear(moved, _allow_other_inputs=True, _outputs=["y"])

    def rewrite(op: Builder, q: ir.Value, moved: ir.Value, y: ir.Value) -> Rewritten:
        dequantize, move = y.producer(), moved.producer()
        assert dequantize is not None
        assert move is not None
        scale, zero = constant(argument(dequantize, 1)), argument(dequantize, 2)
        if scale is None or scale.size != 1 or (zero is not None and getattr(constant(zero), "size", 0) != 1):
            return no("there is not one constant scale", at=dequantize)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            return no("the scale is not positive", at=dequantize)
        real = op.like(dequantize, [q, *dequantize.inputs[1:]])
        return op.like(move, [real, *move.inputs[1:]], _outputs=1)

    return Rule(pattern, rewrite, name=name, forks="cheap")
