"""Data types and layouts as FINN reads them from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.analysis.ranges.analyse import ranges_of
from onnx_passes.analysis.ranges.range import Range
from onnx_passes.datatypes import BIPOLAR, TERNARY, DataType
from onnx_passes.datatypes.integers import Integer, IntegerType
from onnx_passes.datatypes.smallest import integer_ends, smallest_for, smallest_for_values
from onnx_passes.datatypes.text import parse
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, set_layout
from onnx_passes.passes.export.bipolar import bipolar_values
from onnx_passes.passes.export.thresholds import step_function
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_RULE = "type of the levels of thresholds"
_FIRST = {("", name) for name in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool")}
_LAST = {(GENERAL, "Im2Col"), (GENERAL, "MaxPoolNHWC")}
_SAME = {("", name) for name in ("Add", "Sub", "Mul", "Relu", "Identity", "Concat", "ReduceSum", "Pad", "Resize")}
_INT2 = Integer(2, is_signed=True)


def annotate(model: ir.Model, editor: Editor) -> None:
    """Annotate all tensors of integers with the least types that hold them, and layouts."""
    for node in model.graph:
        needed = _undeclared(node)
        if needed and not editor.update(_RULE, node, attributes={"out_dtype": ir.AttrString("out_dtype", needed)}):
            return
    bipolar = bipolar_values(model.graph)
    changed = 0
    ranges = ranges_of(model)
    compared = _compared(model.graph, ranges)
    for value, known in ranges.items():
        if value.is_graph_input() or value.dtype not in (None, ir.DataType.FLOAT):
            continue
        wanted = compared.get(value) or _datatype(value, known, is_bipolar=value in bipolar)
        old = datatype_of(value)
        if wanted is not None or (old is not None and old.is_integer):
            changed += set_datatype(value, wanted)
    for node in model.graph:
        changed += _lay_out(node)
    editor.annotated |= changed > 0


def _compared(graph: ir.Graph, ranges: Mapping[ir.Value, Range]) -> dict[ir.Value, DataType]:
    """Return types for thresholds of integers that also hold what is compared with them, as comparators need."""
    ends: dict[ir.Value, tuple[int, int]] = {}
    for node in graph:
        if (node.domain, node.op_type) == (GENERAL, "MultiThreshold"):
            x, thresholds = node.inputs
            known = None if x is None else ranges.get(x)
            grid, held = None if known is None else known.integer_grid, constant(thresholds)
            own = None if held is None else integer_ends(held)
            if thresholds is not None and grid is not None and own is not None:
                low, high = ends.get(thresholds, own)
                ends[thresholds] = min(low, int(grid.low.min())), max(high, int(grid.high.max()))
    return {value: _plain(smallest_for(*both)) for value, both in ends.items()}


def _datatype(value: ir.Value, known: Range, *, is_bipolar: bool) -> DataType | None:
    grid = known.integer_grid
    held = constant(value)
    if grid is None:
        return None
    if held is not None:
        return _plain(smallest_for_values(held)) if held.size else None
    if is_bipolar:
        return BIPOLAR
    found = smallest_for(int(grid.low.min()), int(grid.high.max()))
    node = value.producer()
    if node is not None and (node.domain, node.op_type) == (GENERAL, "MultiThreshold"):
        declared = parse(node.attributes.get_string("out_dtype", str(found)))
        if isinstance(declared, IntegerType) and declared.min <= found.min and found.max <= declared.max:
            return declared
    return _plain(found)


def _plain(datatype: DataType) -> DataType:
    """Return a type that hardware has: three values take two bits."""
    return _INT2 if datatype == TERNARY else datatype


def _undeclared(node: ir.Node) -> str:
    """Return the type that the levels of thresholds need, where FINN looks for it in vain in their attribute."""
    found = step_function(node) if (node.domain, node.op_type) == (GENERAL, "MultiThreshold") else ""
    if isinstance(found, str):
        return ""
    text = node.attributes.get_string("out_dtype", "")
    declared, needed = parse(text) if text else None, _plain(smallest_for_values(found.levels))
    fits = declared is not None and declared != TERNARY and bool(declared.allowed(found.levels).all())
    is_least = fits and declared is not None and declared.bitwidth <= needed.bitwidth
    return "" if is_least or str(needed) == text else str(needed)


def _lay_out(node: ir.Node) -> int:
    """Annotate the layouts of what a node takes and yields, as far as they are clear."""
    operator, x, y = (node.domain, node.op_type), node.inputs[0] if node.inputs else None, node.outputs[0]
    if x is None:
        return 0
    if operator in _FIRST or operator in _LAST:
        axes = "NCHW" if operator in _FIRST else "NHWC"
        return _annotate(x, axes) + _annotate(y, axes)
    if operator == (GENERAL, "MultiThreshold"):
        axes = node.attributes.get_string("data_layout", "")
        return _annotate(x, axes) + _annotate(y, axes)
    known = next((layout_of(value) for value in node.inputs if value is not None and constant(value) is None), None)
    if operator == ("", "MatMul") or operator == (GENERAL, "XnorPopcountMatMul"):
        axes = "NC" if rank(y) == 2 else known or ""
        return _annotate(x, axes) + _annotate(y, axes)
    if known is None:
        return 0
    if operator == ("", "Transpose"):
        perm = node.attributes.get_ints("perm")
        return 0 if perm is None else _annotate(y, [known[axis] for axis in perm])
    return _annotate(y, known) if operator in _SAME else 0


def _annotate(value: ir.Value, axes: Sequence[str]) -> int:
    if constant(value) is not None or not axes or rank(value) != len(axes):
        return 0
    return int(set_layout(value, list(axes)))
