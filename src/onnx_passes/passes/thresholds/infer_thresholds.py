"""Find the thresholds of quantizers, and of all that is computed elementwise before them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.options import option
from onnx_passes.ops.quantizer import rounds_to_integers
from onnx_passes.ops.quantizing import BIPOLAR_LEVELS, quantizer_of
from onnx_passes.passes.thresholds.conversion import End, Semantics, convert_all, promise_of_semantics
from onnx_passes.passes.thresholds.levels import clipped, levels_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.tolerance
@passes.register(tags=("thresholds", "quantized"))
class InferThresholds(EditorPass):
    """Fuse quantizers and the elementwise operators before them into thresholds.

    Rewrites: ``Quant(Relu(q * s + b), 1, 0, bits)`` → ``MultiThreshold(q, T)``. The thresholds are where the function
              of real numbers that a tail means passes the edges of levels, for the integers that q can be, or all
              floats where q is no integer, or beyond those that floats hold; ties are decided without rounding, from
              what merged scales stand for. With ``semantics=float`` they are searched on the computation itself, which
              ONNX Runtime runs, so that both agree on every input, rounding included. Channels that fall are turned
              around in the weights before them, or written as steps downwards. What gives every integer back as it is
              goes.
    Refuses:  more than ``max-bits``, quantizers whose scale is not 1 (run extract-quant-scale-zeropoint first),
              parameters that are computed, that differ along every axis, or for more than 16384 elements, functions of
              floats that go up and down. A part of the tail is taken where the whole is refused. Parameters that differ
              along several axes, such as a positional embedding, give thresholds that do, too: separate-thresholds
              writes them as QONNX and FINN know them; with ``by-channel`` they stay before.
    Exactness: the levels of exact arithmetic on every finite input: other than those of floats at ties alone. Notes say
              where floats are rounded before a tail, or an operator has no meaning in real numbers here. With
              ``semantics=float`` equal, but for the sign of zeros; of functions that are approximated, such as Sigmoid,
              all integers are looked at, but of floats only a thousand or two around each threshold.
    """

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan", "nsz")

    max_bits: int = option(8, "widest quantizer to convert; n bits make 2**n - 1 thresholds")
    only_signs: bool = option(False, "convert quantizers to -1 and 1 alone")
    semantics: Semantics = option("exact", "whether a tail means real numbers, or what floats make of them")
    by_channel: bool = option(False, "no thresholds that differ from element to element, as FINN has none")

    def __post_init__(self) -> None:
        """Promise equality of what floats compute, if that is what a tail means."""
        promise_of_semantics(self, self.semantics)

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert quantizers in the order of the graph: each makes integers known to the next."""
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
