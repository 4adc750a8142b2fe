"""Infer the thresholds of quantizers and the elementwise operators before them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.ops.quantizer import BIPOLAR_LEVELS, quantizer_of, rounds_to_integers
from onnx_passes.passes.thresholds.conversion import End, Semantics, convert_all, promise_of_semantics
from onnx_passes.passes.thresholds.levels import clipped, levels_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.tolerance
@passes.register(tags=("thresholds", "quantized"))
class InferThresholds(EditorPass):
    """Fuse quantizers and the elementwise operators before them into thresholds.

    Rewrites: ``Quant(Relu(q * s + b), 1, 0, bits)`` → ``MultiThreshold(q, T)``. Thresholds are the inputs at which the
              exact real-valued chain crosses a decision boundary of the quantizer, among the integers in the range of
              q, or among all floats if q is not an integer, or exceeds those that floats hold; ties are decided without
              rounding, from the exact values of merged scales. With ``semantics=float`` they are searched on the float
              computation, which ONNX Runtime runs, so that both agree on every input, rounding included. Decreasing
              channels are negated in the weights before them, or become steps downwards. Chains that are the identity
              on integers are removed.
    Refuses:  more than ``max-bits``, quantizers whose scale is not 1 (run extract-quant-scale-zeropoint first),
              parameters that are computed, that vary along every axis, or have more than 16384 elements, non-monotone
              functions of floats. If the whole chain is refused, its last part is converted. Parameters that vary along
              several axes, such as a positional embedding, give such thresholds: separate-thresholds converts them to
              the form of QONNX and FINN; with ``by-channel`` the operators stay.
    Exactness:the levels of exact arithmetic on every finite input, which differ from those of floats at ties only.
              Notes name floats that round before a chain, and operators without real-number semantics here. With
              ``semantics=float`` equal, except for the sign of zeros; for approximated functions, such as Sigmoid, all
              integers are checked, but floats only around each threshold, a thousand or two.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan", "nsz")

    max_bits: int = option(8, "widest quantizer to convert; n bits make 2**n - 1 thresholds")
    only_signs: bool = option(False, "convert quantizers to -1 and 1 only")
    semantics: Semantics = option("exact", "whether thresholds are those of real numbers, or of the float computation")
    by_channel: bool = option(False, "no thresholds that vary by element, as FINN has none")

    def __post_init__(self) -> None:
        """Claim equality if thresholds are those of the float computation."""
        promise_of_semantics(self, self.semantics)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert quantizers in graph order, so that each adds known integers for the next."""
        quantizers = [node for node in model.graph if rounds_to_integers(node)]
        if self.only_signs:
            quantizers = [node for node in quantizers if _gives_signs(node)]
        convert_all(model, editor, quantizers, self._end, self.semantics)

    def _end(self, node: ir.Node) -> End | str:
        levels = levels_of(node)
        if isinstance(levels, str):
            return levels
        end, levels = clipped(node, levels)
        if levels.steps >= 2**self.max_bits:
            return f"its {levels.steps + 1} levels are more than {self.max_bits} bits"
        return End(end, levels, shortest=1 if end is node else 2, by_channel=self.by_channel)


def _gives_signs(node: ir.Node) -> bool:
    quantizer = quantizer_of(node)
    return quantizer is not None and quantizer.levels(node) == BIPOLAR_LEVELS
