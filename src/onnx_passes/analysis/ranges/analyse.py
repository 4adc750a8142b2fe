"""Find the range of every value of a model, from its inputs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import onnx_ir as ir

from onnx_passes.analysis.dataflow import Forward
from onnx_passes.analysis.ranges.elementwise import either
from onnx_passes.analysis.ranges.exactness import held, judged
from onnx_passes.analysis.ranges.quantizers import by_grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.seeds import Known, seeds
from onnx_passes.analysis.ranges.settle import settle
from onnx_passes.analysis.ranges.site import RANGES, Site
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
    ranges = Ranges.of_inputs(model.graph, inputs)
    ranges.run(model.graph)
    return ranges.known


class Ranges(Forward[Range]):
    """What is known of values; of nodes that are added to a graph one by one, too."""

    @staticmethod
    def of_inputs(graph: ir.Graph, inputs: Mapping[str, Known] | None = None) -> Ranges:
        """Begin with what comes in."""
        ranges = Ranges()
        given = seeds(graph.inputs, inputs or {})
        ranges.known.update((value, held(known, value.dtype)) for value, known in given.items())
        return ranges

    def add(self, node: ir.Node) -> None:
        """Find out what a node yields, from what is known of its inputs."""
        self.known.update(zip(node.outputs, self.transfer(node), strict=True))

    def source(self, value: ir.Value) -> Range:
        """Return what a constant is, or the type of a value says."""
        return _of_constant(value) or settle(UNKNOWN, value)

    def join(self, a: Range, b: Range) -> Range:
        """Return what holds for either branch."""
        return either(a, b)

    def transfer(self, node: ir.Node) -> list[Range]:
        """Return what a node makes of what is known of its inputs."""
        rule = RANGES.get(node) or (by_grid if node.domain and is_quantizer(node) else None)
        ranges: Sequence[Range | None] = ()
        results: Sequence[Range | None] = ()
        if rule is not None:
            ranges = [None if value is None else self.of(value) for value in node.inputs]
            try:
                found = rule(Site(node, ranges))
                results = () if found is None else (found,) if isinstance(found, Range) else found
            except (IndexError, ValueError):
                # Shapes that contradict each other: nothing is known of what a model computes that does not run.
                results = ()
        elif (node.domain, node.op_type) == ("", "If"):
            results = self.of_branches(node)
        return [
            _of_constant(value) or judged(settle(result or UNKNOWN, value), node, ranges)
            for value, result in zip_longest(node.outputs, results[: len(node.outputs)])
        ]


def _of_constant(value: ir.Value) -> Range | None:
    tensor = constant_tensor(value)
    if tensor is None or tensor.size == 0:
        return None
    array = tensor.numpy()
    if array.dtype.kind not in _NUMBERS:
        return None
    known = Range.point(array)
    return settle(known, value) if known is UNKNOWN else held(known, value.dtype)
