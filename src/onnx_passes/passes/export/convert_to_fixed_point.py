"""Convert a quantized network to fixed-point layers."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.passes.export.hls4ml_layers import hoist_scales, keep_powers_of_two, write_layers
from onnx_passes.passes.export.hls4ml_operators import lower_operators
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.tolerance
@passes.register(tags=("export", "quantized", "qonnx"))
class ConvertToFixedPoint(EditorPass):
    """Convert the layers of a quantized network to fixed-point weights, each followed by one scale and shift.

    Rewrites: ``MatMul(x, w) * a + b`` with ``w = s * q`` → ``BatchNormalization(MatMul(x, Quant(q * 2**e, 2**e, 0,
              bits)))``, with the least number of bits, and the power of two that leaves factors near one; or only
              ``Add``, or the bias of a Conv, if that is all that remains. Positive factors before a quantizer move
              before Relu and MaxPool, to those of a layer; ``Quant(x * 2**k, 1)`` → ``Quant(x, 2**-k) * 2**k``, which
              the weights of the next layer absorb. ``BipolarQuant(x, s)`` → ``Quant(x + 1, 1, 0, 1) * 2s - s``, with
              floats rounded down to integers before; Trunc → Quant; Max, Min and Clip with constants → Relu between
              shifts; means and sums of pixels → convolutions with ones, whose sums are exact.
    Refuses:  weights that are not integers times one scale per channel, or need more than 16 bits; a scale and a shift
              that vary from pixel to pixel; convolutions of channels-first images.
    Exactness: rounding; scales are computed in double precision and rounded once.
    """

    needs = ("import-qonnx", "lift-constants", "shape-inference", "inline-gemm")
    followed_by = ("remove-unused",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Lower operators, aggregate scales, then write each layer."""
        lower_operators(editor, ranges_of(model))
        if not editor.stopped:
            hoist_scales(editor)
        if not editor.stopped:
            keep_powers_of_two(editor)
        if not editor.stopped:
            write_layers(editor, ranges_of(model))
