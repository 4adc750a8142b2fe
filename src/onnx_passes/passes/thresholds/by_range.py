"""Base of passes that rewrite the thresholds of a node from the range of its input."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.range import Range
from onnx_passes.passes.thresholds.nodes import Thresholds, is_thresholds
from onnx_passes.passes.thresholds.writing import constant_of
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.passes import EditorPass


@dataclass(frozen=True)
class Rows:
    """Replacement of thresholds with the same result, and its bias."""

    thresholds: np.ndarray
    bias: float


class ByRange(EditorPass):
    """Visits all thresholds of a graph; subclasses return the replacement for one node."""

    needs = ("shape-inference",)
    preserves = ("shape-inference",)
    fast_math = ("nnan",)

    @abstractmethod
    def rows(self, found: Thresholds, known: Range | None) -> Rows | str:
        """Return equivalent thresholds, or the reason why there are none."""

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Replace the thresholds of all nodes with a replacement."""
        nodes = [node for node in model.graph if is_thresholds(node)]
        ranges = ranges_of(model) if nodes else {}
        for node in nodes:
            with editor.rewrite(f"{self.name} of {node.domain}", node) as r:
                found = Thresholds.of(node)
                other = found if isinstance(found, str) else self.rows(found, ranges.get(found.x))
                if isinstance(found, str) or isinstance(other, str):
                    r.refuse(str(other), at=node)
                    editor.context.note(f"{name_of(node)} stays: {other}")
                elif not np.array_equal(other.thresholds, found.rows):
                    r.replace(node.outputs[0], _counted(r.op, found, other))
            if editor.stopped:
                return


def _counted(op: Builder, found: Thresholds, other: Rows) -> ir.Value:
    node, old = found.node, found.node.inputs[1]
    assert old is not None
    thresholds = constant_of(op, found.shaped(other.thresholds), str(old.name))
    attributes: dict[str, Any] = dict(node.attributes)
    if other.bias != found.bias:
        attributes["out_bias"] = other.bias
    return op.op(node.op_type, found.x, thresholds, *node.inputs[2:], _domain=node.domain, **attributes)
