"""Write a streamlined network as FINN reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.core.options import option
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.export.bipolar import begin_at_least_levels, replace_signs
from onnx_passes.passes.export.channels_last import FinnImages
from onnx_passes.passes.export.finn_annotations import annotate
from onnx_passes.passes.export.finn_forms import part_thresholds, write_forms
from onnx_passes.passes.export.finn_sequences import write_sequences
from onnx_passes.passes.export.finn_support import name_what_stays
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@passes.verify.equality
@passes.register(tags=("export", "quantized", "qonnx", "convert"))
class ExportFinn(EditorPass):
    """Convert a streamlined network to the form that FINN builds hardware from.

    Rewrites: what export-qonnx does; thresholds that differ along several axes, or in height → those of channels
              (separate-thresholds, decompose-thresholds), of integers → integers within their range; all tensors of
              integers get the least data type that holds them, known layouts are annotated. ``Conv`` → ``Im2Col``
              and ``MatMul`` on images whose channels come last, ``MaxPool`` → ``MaxPoolNHWC``, and what lies between
              them works on such images, too (``lower-convs=false`` leaves them). Products of -1 and 1 →
              ``XnorPopcountMatMul`` of 0 and 1, thresholds and factors behind them move along; signs that somebody
              else needs → numbers of two bits (``xnor=false``: all of them). ``ReduceSum`` of all pixels →
              ``GlobalAccPool``, ``Resize`` that repeats pixels → ``UpsampleNearestNeighbour``, layers of FINN;
              ``Flatten`` and ``Reshape`` move in front of the thresholds of an input, or get a ``Transpose`` beside
              them that keeps the order. Sequences → images of one row, where thresholds differ by channel; sums that
              several read get a zero added: FINN would make one layer of them and the first thresholds.
    Refuses:  thresholds that QONNX cannot express. Convolutions of floats, with groups, or of images whose size is not
              known stay convolutions; remarks name them.
    Exactness: bit-exact, as long as inputs that are annotated as integers are such.
    """

    needs = (
        "import-qonnx",
        "lift-constants",
        "shape-inference",
        "separate-thresholds",
        "flip-thresholds",
        "decompose-thresholds",
        "shape-inference",
        "round-thresholds",
        "infer-datatypes",
    )
    followed_by = ("cleanup",)
    fast_math = ("nnan", "ninf")

    lower_convs: bool = option(True, "write convolutions as products of matrices, channels last")
    xnor: bool = option(True, "write products of -1 and 1 as XnorPopcountMatMul; without it signs take two bits")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Write it as QONNX does, then as FINN wants it."""
        ExportQonnx(ir_version=8).edit(model, editor)
        if self.lower_convs and not editor.stopped:
            FinnImages(editor, ranges_of(model)).convert_all("channels last")
        for step in self._steps(model):
            if not editor.stopped:
                step(editor)
        name_what_stays(model.graph, editor.context)

    def _steps(self, model: ir.Model) -> tuple[Callable[[Editor], None], ...]:
        signs = partial(replace_signs, count=self.xnor)
        forms, types = partial(write_forms, model), partial(annotate, model)
        shapes = partial(_infer_shapes, model)
        return write_sequences, shapes, forms, signs, begin_at_least_levels, part_thresholds, shapes, types


def _infer_shapes(model: ir.Model, editor: Editor) -> None:
    editor.annotated |= ShapeInference(gaps_only=True).run(model, editor.context).modified
