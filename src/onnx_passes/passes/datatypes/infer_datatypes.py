"""Infer the data types of tensors."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.base import Annotation, Context, PassResult
from onnx_passes.core.options import option
from onnx_passes.datatypes import BIPOLAR, FLOAT32, DataType, IntegerType, ScaledInteger
from onnx_passes.datatypes.types import Float, range_of
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.tensor_types import datatype_of, set_datatype
from onnx_passes.graph.wording import count
from onnx_passes.passes.datatypes.facts import Fact
from onnx_passes.passes.datatypes.inference import DatatypeInference

_INDICES = (ir.DataType.INT64, ir.DataType.BOOL)
"""Element types of shapes, indices and conditions, which get no data type."""


@passes.verify.equality
@passes.register(tags=("annotate", "datatypes"))
class InferDatatypes(Annotation):
    """Infer the data types of tensors, and annotate them (``finn_datatype``).

    Rewrites: ``y = MatMul(x, w)`` with ``x: UINT2`` and constant ``w`` of -1 and 1 in 8 rows → ``w: BIPOLAR``,
              ``y: INT6`` or less. Quantizers give their target type, or a smaller one if their range is smaller; sums
              and products the smallest type with all possible results, from the ranges of the inputs and the weights
              themselves; moved numbers keep their type, and joins get a common type; integer constants get the
              smallest type; anything else is ``FLOAT32``. Types that do not contain the computed range are corrected,
              and a remark counts them. ``minimize-accumulators`` finds the same types of integers.
    Refuses:  to replace declared types of inputs, of constants that fit, and of results of unknown operators; data
              types that do not exist.
    Exactness:annotates only. Sound for inputs of their declared type and exact sums; integers wrap around as their
              element type does. A remark names sums that floats cannot hold exactly.
    """

    needs = ("shape-inference",)

    allow_scaledint: bool = option(False, "give integers with a scale the type SCALEDINT instead of FLOAT32")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a pass manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Infer the data types, and write the new ones."""
        inference = DatatypeInference(ranges_of(model), allow_scaledint=self.allow_scaledint)
        inference.run(model.graph)
        modified, wrong, wide = False, list[str](), 0
        for value, fact in list(_to_be_written(model.graph, inference)):
            before = datatype_of(value)
            if not set_datatype(value, fact.datatype):
                continue
            modified = True
            if before is not None and not _holds(before, fact):
                wrong.append(f"'{value.name}' is {fact.datatype}, not {before}")
            elif before is not None and before != fact.datatype:
                wide += 1
        if wrong:
            context.note(f"corrected {count(wrong, 'data type')} that may not hold all results, first {wrong[0]}")
        if wide:
            context.note(f"replaced {count(wide, 'data type')} by a more precise one")
        inexact = inference.inexact
        if inexact:
            context.note(
                f"{count(inexact, 'sum')} may exceed the integers that floats hold exactly, first '{inexact[0].name}'"
            )
        return PassResult(model, modified=modified)


def _to_be_written(graph: ir.Graph, inference: DatatypeInference) -> Iterator[tuple[ir.Value, Fact]]:
    """Yield inferred facts; for indices and non-integer constants only to replace a declared type."""
    declared = {value for value in annotations.values(graph) if datatype_of(value) is not None}
    for value in declared:
        if is_constant(value) and datatype_of(value) != FLOAT32:
            inference.of(value)
    for value, fact in inference.constants.items():
        if value in declared or (isinstance(fact.datatype, IntegerType) and value.dtype not in _INDICES):
            yield value, fact
    for value, fact in inference.results.items():
        if value in declared or (_is_number(value) and value.dtype not in _INDICES):
            yield value, fact


def _is_number(value: ir.Value) -> bool:
    return value.dtype is None or value.dtype.is_floating_point() or value.dtype.is_integer()


def _holds(declared: DataType, fact: Fact) -> bool:
    """Return whether a declared type contains every number of the inferred range."""
    if (
        declared == fact.datatype
        or isinstance(declared, ScaledInteger)
        or (isinstance(declared, Float) and declared.bitwidth >= 32)
    ):
        return True
    known = range_of(declared)
    return known is not None and declared != BIPOLAR and fact.range is not None and fact.range in known
