"""Convert thresholds to quantizers."""

from __future__ import annotations

from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.numbers.range import Range
from onnx_passes.passes.thresholds.nodes import COUNTING_DOMAINS, Thresholds, holds_integers, is_thresholds
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.leftovers import Leftovers
from onnx_passes.rewrite.passes import EditorPass

_DOMAIN = COUNTING_DOMAINS[0]


@passes.verify.equality
@passes.register(tags=("thresholds", "quantized"))
class ConvertThresholdsToQuant(EditorPass):
    """Convert evenly spaced thresholds of integers, and single thresholds of any input, to quantizers.

    Rewrites: ``MultiThreshold(q, [[3, 5, 7]])`` → ``Quant((q - 1) / 2, 1, 0, 2)`` with rounding mode FLOOR;
              ``MultiThreshold(x, [[t]])`` with levels -1 and 1 → ``BipolarQuant(x - t, 1)``.
    Refuses:  inputs that are not known to be integers, thresholds that are not integers or not evenly spaced (run
              round-thresholds first), and levels that are not all values of a data type.
    Exactness: equal on every finite input, except for the sign of zeros.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Convert the nodes of the graph for which there is a quantizer."""
        nodes = [node for node in model.graph if is_thresholds(node)]
        ranges = ranges_of(model) if nodes else {}
        for node in nodes:
            with editor.rewrite("quantizer for thresholds", node) as r:
                found = Thresholds.of(node)
                built = found if isinstance(found, str) else _quantizer(r.op, found, ranges.get(found.x))
                if isinstance(built, str):
                    r.refuse(built, at=node)
                    editor.context.note(f"{name_of(node)} stays: {built}")
                else:
                    for made in r.op.nodes:
                        copy_type_and_shape(node.outputs[0], made.outputs[0])
                    r.replace(node.outputs[0], built)
            if editor.stopped:
                return
        inner = Leftovers()
        for node in chain(all_nodes(model.graph), *map(all_nodes, model.functions.values())):
            if is_thresholds(node) and node.graph is not model.graph:
                inner.add(node.op_type, "in a subgraph, or a function of the model")
        for text in inner.notes():
            editor.context.note(text)


def _quantizer(op: Builder, found: Thresholds, known: Range | None) -> ir.Value | str:
    rows = np.sort(found.rows, axis=1).astype(np.float64)
    if found.weights is not None:
        return "its steps differ in height"
    if (found.scale, found.bias, rows.shape[1]) == (2.0, -1.0, 1):
        return op.BipolarQuant(_moved(op, found, rows[:, 0]), np.float32(1), _domain=_DOMAIN)
    levels = _levels(found)
    if levels is None:
        return "its levels are not all values of a data type"
    bits, signed, narrow = levels
    if not holds_integers(known):
        return "its input is not known to be integer"
    steps = np.diff(rows, axis=1)
    step = steps[:, :1] if steps.shape[1] else np.ones((len(rows), 1))
    if (rows != np.rint(rows)).any() or (step <= 0).any() or (steps != step).any():
        return "its thresholds are not evenly spaced integers"
    spacing = step[:, 0]
    moved = _moved(op, found, rows[:, 0] - spacing * (1 + found.bias))
    if (spacing != 1).any():
        moved = op.Div(moved, _shaped(found, spacing))
    attributes = {"signed": int(signed), "narrow": int(narrow), "rounding_mode": "FLOOR"}
    return op.Quant(moved, np.float32(1), np.float32(0), np.float32(bits), _domain=_DOMAIN, **attributes)


def _moved(op: Builder, found: Thresholds, by: np.ndarray) -> ir.Value:
    return op.Sub(found.x, _shaped(found, by)) if by.any() else found.x


def _shaped(found: Thresholds, numbers: np.ndarray) -> np.ndarray:
    return numbers.astype(np.float32).reshape(found.places)


def _levels(found: Thresholds) -> tuple[int, bool, bool] | None:
    """Return bit width, signedness and narrowness of the data type whose values are the levels, if any."""
    amount = found.rows.shape[1]
    bits = (amount + 1).bit_length() - (amount + 1 == 1 << ((amount + 1).bit_length() - 1))
    narrow = amount == 2**bits - 2
    if found.scale != 1 or (amount != 2**bits - 1 and not narrow):
        return None
    if found.bias == 0:
        return bits, False, narrow
    # A single signed bit is a bipolar quantizer.
    return (bits, True, narrow) if bits > 1 and found.bias == -(2 ** (bits - 1)) + narrow else None
