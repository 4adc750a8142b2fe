"""Annotate data types and layouts in the form of FINN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.datatypes import BIPOLAR, TERNARY, DataType
from onnx_passes.datatypes.types import Integer, IntegerType, integer_ends, parse, smallest_for, smallest_for_values
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.tensor_types import datatype_of, layout_of, set_datatype, set_layout
from onnx_passes.graph.traits import is_product
from onnx_passes.numbers.range import Range
from onnx_passes.ops.definition import FINN_DOMAIN
from onnx_passes.passes.export.thresholds import is_threshold, step_function
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_RULE = "type of the levels of thresholds"
_TAKEN = "type of what a layer takes"
_FIRST = {("", name) for name in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool")}
_LAST = {
    *((GENERAL, name) for name in ("Im2Col", "MaxPoolNHWC")),
    *((FINN_DOMAIN, name) for name in ("GlobalAccPool", "UpsampleNearestNeighbour")),
}
_SAME = {("", name) for name in ("Add", "Sub", "Mul", "Relu", "Identity", "Concat", "ReduceSum", "Pad", "Resize")}
_INT2 = Integer(2, is_signed=True)


def annotate(model: ir.Model, editor: Editor) -> None:
    """Annotate all tensors of integers with the smallest types that hold them, and layouts."""
    for node in model.graph:
        needed = str(level_type(node) or "")
        if needed in ("", node.attributes.get_string("out_dtype", "")):
            continue
        if not editor.update(_RULE, node, attributes={"out_dtype": ir.AttrString("out_dtype", needed)}):
            return
    changed = 0
    ranges = ranges_of(model)
    compared = _compared(model.graph, ranges)
    for value, known in ranges.items():
        if value.dtype not in (None, ir.DataType.FLOAT) or (value.is_graph_input() and datatype_of(value) != BIPOLAR):
            continue
        wanted = compared.get(value) or _datatype(value, known)
        old = datatype_of(value)
        if wanted is not None or (old is not None and old.is_integer):
            changed += set_datatype(value, wanted)
    for node in model.graph:
        changed += _lay_out(node)
    editor.annotated |= changed > 0
    for node in model.graph:
        taken = datatype_of(node.inputs[0]) if node.domain == FINN_DOMAIN and node.inputs[0] is not None else None
        text = str(taken)
        if taken is None or node.attributes.get_string("inputDataType", "") == text:
            continue
        if not editor.update(_TAKEN, node, attributes={"inputDataType": ir.AttrString("inputDataType", text)}):
            return


def _compared(graph: ir.Graph, ranges: Mapping[ir.Value, Range]) -> dict[ir.Value, DataType]:
    """Return types for integer thresholds that also hold the compared values, as comparators need."""
    ends: dict[ir.Value, tuple[int, int]] = {}
    for node in graph:
        if is_threshold(node):
            x, thresholds = node.inputs
            known = None if x is None else ranges.get(x)
            grid, held = None if known is None else known.integer_grid, constant(thresholds)
            own = None if held is None else integer_ends(held)
            if thresholds is not None and grid is not None and own is not None:
                low, high = ends.get(thresholds, own)
                ends[thresholds] = min(low, int(grid.low.min())), max(high, int(grid.high.max()))
    return {value: plain for value, both in ends.items() if (plain := _plain(smallest_for(*both))) is not None}


def _datatype(value: ir.Value, known: Range) -> DataType | None:
    grid = known.integer_grid
    held = constant(value)
    if grid is None:
        return None
    if held is not None:
        found = smallest_for_values(held) if held.size else None
        return found if found == BIPOLAR and _is_weight(value) else _plain(found)
    found = smallest_for(int(grid.low.min()), int(grid.high.max()))
    node = value.producer()
    if node is not None and is_threshold(node):
        declared = parse(node.attributes.get_string("out_dtype", str(found)))
        if isinstance(declared, IntegerType) and declared.min <= found.min and found.max <= declared.max:
            return declared
    return _plain(found)


def _is_weight(value: ir.Value) -> bool:
    return all(is_product(user) and index == 1 for user, index in value.uses())


def _plain(datatype: DataType | None) -> IntegerType | None:
    """Return the integer type of hardware for activations: signs take two bits."""
    return _INT2 if datatype in (BIPOLAR, TERNARY) else datatype if isinstance(datatype, IntegerType) else None


def is_window(node: ir.Node) -> bool:
    """Return whether a node slides windows over channels-first images."""
    return (node.domain, node.op_type) in _FIRST


def level_type(node: ir.Node) -> IntegerType | None:
    """Return the smallest type that holds the levels of thresholds: the declared one if it is as small."""
    found = step_function(node) if is_threshold(node) else ""
    if isinstance(found, str):
        return None
    text, needed = node.attributes.get_string("out_dtype", ""), _plain(smallest_for_values(found.levels))
    declared = _plain(parse(text)) if text else None
    if declared is None or needed is None or declared.bitwidth > needed.bitwidth:
        return needed
    return declared if bool(declared.allowed(found.levels).all()) else needed


def _lay_out(node: ir.Node) -> int:
    """Annotate the layouts of the input and result of a node, if known."""
    operator, x, y = (node.domain, node.op_type), node.inputs[0] if node.inputs else None, node.outputs[0]
    if x is None:
        return 0
    if operator in _FIRST or operator in _LAST:
        axes = "NCHW" if operator in _FIRST else "NHWC"
        return _annotate(x, axes) + _annotate(y, axes)
    if is_threshold(node):
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
