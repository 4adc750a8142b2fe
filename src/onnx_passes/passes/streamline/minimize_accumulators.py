"""Annotate the smallest data types that hold all computed integers."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Annotation, Context, PassResult
from onnx_passes.datatypes import DataType, IntegerType
from onnx_passes.datatypes.types import smallest_for_values
from onnx_passes.graph.constants import constant
from onnx_passes.graph.tensor_types import datatype_of, set_datatype
from onnx_passes.numbers.range import Range
from onnx_passes.passes.datatypes.inference import DatatypeInference


@passes.verify.equality
@passes.register(tags=("streamline", "annotate", "quantized"))
class MinimizeAccumulators(Annotation):
    """Annotate integer tensors with the smallest data type that holds their values, accumulators above all.

    Rewrites: ``y = MatMul(x, w)`` with integers from -37 to 90 in y → ``y: INT8``; from the values of weights and the
              ranges of inputs, not from their types. Tensors without integers lose integer annotations.
    Refuses:  to change declared types of inputs and outputs of the model.
    Exactness: annotates only; no node and no result changes.
    """

    needs = ("shape-inference",)

    def call(self, model: ir.Model) -> PassResult:
        """Run without a pass manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Annotate results of nodes and their constant operands."""
        ranges = ranges_of(model)
        inference = DatatypeInference(ranges)
        inference.run(model.graph)
        changed = 0
        for value, known in ranges.items():
            if value.is_graph_input() or value.dtype not in (None, ir.DataType.FLOAT, ir.DataType.DOUBLE):
                continue
            wanted, old = _least(value, known, inference), datatype_of(value)
            if wanted is None and (old is None or not old.is_integer):
                continue
            changed += set_datatype(value, wanted)
        return PassResult(model, modified=changed > 0)


def _least(value: ir.Value, known: Range, inference: DatatypeInference) -> DataType | None:
    held = constant(value)
    if held is not None:
        return smallest_for_values(held) if known.integer_grid is not None and held.size else None
    fact = inference.results.get(value)
    return None if fact is None or not isinstance(fact.datatype, IntegerType) else fact.datatype
