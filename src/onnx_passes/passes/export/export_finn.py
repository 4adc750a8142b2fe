"""Export a streamlined network to FINN."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
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

    Rewrites: the rewrites of export-qonnx; thresholds that vary along several axes, or in height → thresholds per
              channel (separate-thresholds, decompose-thresholds), thresholds of integers → integers within their range;
              all tensors of integers get the smallest data type that holds them, known layouts are annotated. ``Conv``
              → ``Im2Col`` and ``MatMul`` on channels-last images, ``MaxPool`` → ``MaxPoolNHWC``, and operators between
              them work on such images, too (not with ``lower-convs=false``). Products of -1 and 1 →
              ``XnorPopcountMatMul`` of 0 and 1, with adapted thresholds and factors after them; signs with other
              consumers → two-bit numbers (all of them with ``xnor=false``). ``ReduceSum`` of all pixels →
              ``GlobalAccPool``, ``Resize`` that repeats pixels → ``UpsampleNearestNeighbour``, layers of FINN;
              ``Flatten`` and ``Reshape`` move before the thresholds of an input, or get an adjacent ``Transpose`` that
              keeps the order. Sequences → images of one row, if thresholds vary by channel; sums with several consumers
              get a zero added, as FINN would otherwise merge them with the first thresholds.
    Refuses:  thresholds that QONNX cannot express. Convolutions of floats, with groups, or of images of unknown size
              stay convolutions; remarks name them.
    Exactness: bit-exact, if inputs annotated as integers hold integers.
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

    lower_convs: bool = option(True, "lower convolutions to matrix products, channels last")
    xnor: bool = option(True, "convert products of -1 and 1 to XnorPopcountMatMul; otherwise signs take two bits")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Export to QONNX, then adapt the model to FINN."""
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
