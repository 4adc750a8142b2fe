"""Rules of the two forms that this room has most of: a node that does nothing, and two nodes that make one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.shapes import static_shape
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.rule import Rule
from onnx_passes.rewrite.source import source_of

Check = Callable[[ir.Node], Any]
Merge = Callable[[Any, ir.Node, ir.Node], Any]


def examples(*graphs: str) -> Mapping[str, Any]:
    """Make hints for the fuzzer of graphs in ONNX text."""
    return {"models": [in_opset(20, graph) if graph[0] != "<" else graph for graph in graphs]}


def in_opset(version: int, graph: str) -> str:
    """Put the header of a model before a graph in ONNX text."""
    return f'<ir_version: 9, opset_import: ["" : {version}]> {graph}'


def filled_like(op: Any, x: ir.Value, content: ir.Value | np.ndarray) -> ir.Value:
    """Build a value of the shape of another, or wider where the content is: it depends on the shape alone."""
    shape = static_shape(x)
    return op.Expand(content, op.Shape(x) if shape is None else np.array(shape, np.int64))


def bypass(op_type: str, check: Check, *, name: str = "") -> Rule:
    """Make a rule that uses the first input of a node instead of its first output, if the check agrees."""

    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, op_type)(x, _allow_other_inputs=True)

    def agrees(match: Match) -> Any:
        return check(match.root)

    def rewrite(op: Any, x: ir.Value) -> ir.Value:
        return x

    # A node that could stand at any of several inputs is asked about its first one only.
    return Rule(pattern, rewrite, agrees, name=name or op_type, commute=False, source=source_of(check))


def merging(outer: str, inner: str, merge: Merge, *, name: str = "", exclusive: bool = False) -> Rule:
    """Make a rule for an operator applied to another one: ``merge(op, outer, inner)`` returns a value or a refusal.

    The inner node stays if others use it; the outer one then just reads from further up.
    """

    def pattern(op: Any, x: Any) -> Any:
        middle = getattr(op, inner)(x, _allow_other_inputs=True)
        return getattr(op, outer)(middle, _allow_other_inputs=True, _outputs=["result"])

    def rewrite(op: Any, result: ir.Value) -> Any:
        node = result.producer()
        middle = None if node is None else node.inputs[0]
        before = None if middle is None else middle.producer()
        assert node is not None
        assert before is not None
        return merge(op, node, before)

    return Rule(
        pattern,
        rewrite,
        name=name or f"{outer}Of{inner}",
        commute=False,
        forks="exclusive" if exclusive else "duplicate",
        source=source_of(merge),
    )
