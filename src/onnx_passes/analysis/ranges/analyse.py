"""Find the range of every value of a model, from its inputs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import onnx_ir as ir

from onnx_passes.analysis.ranges.elementwise import either
from onnx_passes.analysis.ranges.exactness import held, judged
from onnx_passes.analysis.ranges.quantizers import by_grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.seeds import Known, seeds
from onnx_passes.analysis.ranges.settle import settle
from onnx_passes.analysis.ranges.site import RANGES, Site
from onnx_passes.core.walk import nested_graphs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.ops.quantizing import is_quantizer

_NUMBERS = frozenset("fiub")


def ranges_of(model: ir.Model, inputs: Mapping[str, Known] | None = None) -> dict[ir.Value, Range]:
    """Return what is known of each value of the graph, and of the graphs in its nodes.

    ``inputs`` says what comes in: a ``Range``, ``(low, high)``, or a data type such as ``"UINT8"`` by the name of the
    input. Where it says nothing the annotation ``finn_datatype`` counts, then the integer type of the input.
    Shapes and types must have been inferred before; where a shape is missing less is known, and where a type is
    missing it is taken for ``float32``.
    """
    graph = model.graph
    found: dict[ir.Value, Range] = {}
    found.update((value, held(known, value.dtype)) for value, known in seeds(graph.inputs, inputs or {}).items())
    _follow(graph, found)
    return found


def _follow(graph: ir.Graph, found: dict[ir.Value, Range]) -> None:
    for node in graph:
        branches = list(nested_graphs(node))
        for branch in branches:
            _follow(branch, found)
        rule = RANGES.get(node) or (by_grid if node.domain and is_quantizer(node) else None)
        ranges: Sequence[Range | None] = ()
        results: Sequence[Range | None] = ()
        if rule is not None:
            ranges = [_known(value, found) for value in node.inputs]
            try:
                results = _results(rule(Site(node, ranges)))
            except (IndexError, ValueError):
                # Shapes that contradict each other: nothing is known of what a model computes that does not run.
                results = ()
        elif (node.domain, node.op_type) == ("", "If"):
            results = [
                reduce(either, [_known(value, found) or UNKNOWN for value in outputs])
                for outputs in zip(*(branch.outputs for branch in branches), strict=True)
            ]
        for index, value in enumerate(node.outputs):
            result = results[index] if index < len(results) else None
            found[value] = _of_constant(value) or judged(settle(result or UNKNOWN, value), node, ranges)


def _results(found: Range | Sequence[Range | None] | None) -> Sequence[Range | None]:
    return () if found is None else (found,) if isinstance(found, Range) else found


def _known(value: ir.Value | None, found: dict[ir.Value, Range]) -> Range | None:
    if value is None:
        return None
    known = found.get(value)
    if known is None:
        known = found[value] = _of_constant(value) or settle(UNKNOWN, value)
    return known


def _of_constant(value: ir.Value) -> Range | None:
    tensor = constant_tensor(value)
    if tensor is None or tensor.size == 0:
        return None
    array = tensor.numpy()
    if array.dtype.kind not in _NUMBERS:
        return None
    known = Range.point(array)
    return settle(known, value) if known is UNKNOWN else held(known, value.dtype)
