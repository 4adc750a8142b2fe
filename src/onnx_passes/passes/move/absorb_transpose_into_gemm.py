"""Let Gemm transpose its operands itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import integer
from onnx_passes.graph.builder import Builder
from onnx_passes.passes.move.forms import exchange
from onnx_passes.passes.move.layout import permutation
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_FLAGS = ("transA", "transB")


@passes.verify.tolerance
@passes.register("reorder")
class AbsorbTransposeIntoGemm(Transformation, RewriteRuleSetPass):
    """Fold transposes of operands into the attributes of Gemm.

    Rewrites: ``Gemm(Transpose(a), b, c)`` → ``Gemm<transA=1>(a, b, c)``; the same for ``b``; a flag that is set is
              cleared.
    Refuses:  a transposition that moves nothing.
    Exactness: up to rounding; sums of products may be taken in another order, and where they overflow, infinities
              and NaN may change.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def rules(self) -> Sequence[Rule]:
        """Return the rules for either operand."""
        return [exchange("Gemm", "Transpose", _into(slot), slot=slot, forks="duplicate") for slot in (0, 1)]


def _into(slot: int) -> Any:
    def absorb(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
        flags = {name: integer(node, name, 0) for name in _FLAGS}
        if permutation(transpose) not in ([1, 0], None) or None in flags.values():
            return no("it moves nothing", at=transpose)
        flags[_FLAGS[slot]] = 0 if flags[_FLAGS[slot]] else 1
        inputs = list(node.inputs)
        inputs[slot] = transpose.inputs[0]
        attributes = {**{a.name: a for a in node.attributes.values()}, **flags}
        return op.Gemm(*inputs, **attributes)

    return absorb
