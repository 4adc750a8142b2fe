"""Write a streamlined network as FINN reads it."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.options import option
from onnx_passes.graph.builder import Builder
from onnx_passes.passes.export.bipolar import bipolar_values, count_agreement
from onnx_passes.passes.export.channels_last import ChannelsLast
from onnx_passes.passes.export.exactness import is_exact_product
from onnx_passes.passes.export.finn_annotations import annotate
from onnx_passes.passes.export.integer_twins import IntegerTwins
from onnx_passes.passes.qonnx.export_qonnx import ExportQonnx


@passes.verify.equality
@passes.register(tags=("export", "quantized", "qonnx", "convert"))
class ExportFinn(Transformation):
    """Bring a streamlined network to the form that FINN builds hardware from.

    Rewrites: what export-qonnx does; thresholds that differ along several axes, or in height → those of channels
              (separate-thresholds, decompose-thresholds), of integers → integers within their range; all tensors of
              integers get the least data type that holds them, known layouts are annotated. With ``lower-convs``
              ``Conv`` → ``Im2Col`` and ``MatMul`` on images whose channels come last, ``MaxPool`` → ``MaxPoolNHWC``,
              and what lies between them works on such images, too. With ``xnor`` products of -1 and 1 →
              ``XnorPopcountMatMul`` of 0 and 1, where thresholds follow, which move along.
    Refuses:  thresholds that QONNX cannot express. Convolutions of floats, with groups, or of images whose size is not
              known stay convolutions, products whose results are scaled keep -1 and 1; remarks name them.
    Exactness: bit-exact, as long as inputs that are annotated as integers are such.
    """

    needs = (
        "import-qonnx",
        "lift-constants",
        "shape-inference",
        "separate-thresholds",
        "decompose-thresholds",
        "shape-inference",
        "round-thresholds",
        "infer-datatypes",
    )
    followed_by = ("cleanup",)
    fast_math = ("nnan", "ninf")

    lower_convs: bool = option(False, "write convolutions as products of matrices, channels last")
    xnor: bool = option(False, "write products of -1 and 1 as XnorPopcountMatMul")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Convert in place."""
        modified = ExportQonnx(ir_version=8).run(model, context).modified
        if self.lower_convs:
            modified |= _lower(model, context)
        if self.xnor:
            modified |= count_agreement(model, context)
        modified |= annotate(model)
        return PassResult(model, modified=modified)


def _lower(model: ir.Model, context: Context) -> bool:
    twins, bipolar = IntegerTwins(Builder(model.opset_imports), ranges_of(model)), bipolar_values(model.graph)

    def is_exact(node: ir.Node) -> bool:
        return is_exact_product(twins, node)

    return ChannelsLast(model, is_exact, lambda value: value not in bipolar).run(context)
