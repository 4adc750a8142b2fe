"""Tensors of -1 and 1, and products that count where they agree."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.core.base import Context
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import remove_if_dead
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.export.bench import Bench
from onnx_passes.passes.qonnx.dialect import GENERAL

_KEEPING = {
    *(("", name) for name in ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")),
    (GENERAL, "Im2Col"),
    (GENERAL, "MaxPoolNHWC"),
}
"""Operators that yield elements of their first input, unless they pad."""


def is_bipolar(node: ir.Node) -> bool:
    """Tell whether a node yields -1 and 1 by a single threshold."""
    thresholds, attributes = constant(node.inputs[1]) if len(node.inputs) > 1 else None, node.attributes
    return (
        (node.domain, node.op_type) == (GENERAL, "MultiThreshold")
        and thresholds is not None
        and thresholds.shape[-1] == 1
        and attributes.get_float("out_scale", 1.0) == 2
        and attributes.get_float("out_bias", 0.0) == -1
    )


def bipolar_values(graph: ir.Graph) -> set[ir.Value]:
    """Find all values that hold nothing but -1 and 1, as they come from thresholds."""
    found: set[ir.Value] = set()
    for node in graph:
        if is_bipolar(node) or (node.inputs and node.inputs[0] in found and _keeps(node)):
            found.add(node.outputs[0])
    return found


def _keeps(node: ir.Node) -> bool:
    padded = (node.domain, node.op_type) == (GENERAL, "Im2Col") and any(node.attributes.get_ints("pad_amount") or ())
    return (node.domain, node.op_type) in _KEEPING and len(node.outputs) == 1 and not padded


def count_agreement(model: ir.Model, context: Context) -> bool:
    """Put XnorPopcountMatMul of 0 and 1 in the place of products of -1 and 1; returns whether there were any."""
    sweep = _Sweep(model)
    modified = False
    for node in tuple(model.graph):
        if is_bipolar(node):
            products = sweep.products_of(node)
            if isinstance(products, str):
                context.note(f"{name_of(node)} stays bipolar: {products}")
            elif products:
                sweep.convert(node, products)
                modified = True
    return modified


class _Sweep(Bench):
    def products_of(self, node: ir.Node) -> list[ir.Node] | str:
        """Return the products that use what a node yields; the reason if somebody else does, or needs their signs."""
        found: list[ir.Node] = []
        waiting = [node.outputs[0]]
        while waiting:
            value = waiting.pop()
            if value.is_graph_output():
                return "it is an output of the model"
            for user, index in value.uses():
                if index == 0 and _keeps(user):
                    waiting.append(user.outputs[0])
                    continue
                reason = _why_not(user, index)
                if reason:
                    return f"{name_of(user)} {reason}"
                found.append(user)
        return found

    def convert(self, source: ir.Node, products: list[ir.Node]) -> None:
        """Let a node yield 0 and 1, and products count; thresholds behind them move along."""
        for name, value in (("out_scale", 1.0), ("out_bias", 0.0)):
            source.attributes.add(ir.AttrFloat32(name, value))
        source.attributes.add(ir.AttrString("out_dtype", "BINARY"))
        for product in products:
            x, given = product.inputs
            weights = constant(given)
            assert x is not None
            assert given is not None
            assert weights is not None
            bits = self.op.initializer((weights + 1) / 2, f"{given.name}_bits")
            counted = self.op.XnorPopcountMatMul(x, bits, _domain=GENERAL)
            result = product.outputs[0]
            counted.name, counted.type, counted.shape = f"{result.name}_agreeing", result.type, result.shape
            for user, _ in tuple(result.uses()):
                thresholds = user.inputs[1]
                held = constant(thresholds)
                assert thresholds is not None
                assert held is not None
                length = len(weights)
                moved = np.clip(np.ceil((held.astype(np.float64) + length) / 2), 0, length + 1).astype(np.float32)
                user.replace_input_with(0, counted)
                user.replace_input_with(1, self.op.initializer(moved, f"{thresholds.name}_agreeing"))
            self.place(product)
            remove_if_dead([product])


def _why_not(user: ir.Node, index: int) -> str:
    """Say why a user of -1 and 1 cannot count them as 0 and 1."""
    if (user.domain, user.op_type) != ("", "MatMul") or index != 0:
        return "is no product with weights"
    weights = constant(user.inputs[1])
    if weights is None or weights.ndim != 2 or (np.abs(weights) != 1).any():
        return "has other weights than -1 and 1"
    result = user.outputs[0]
    readers = [reader for reader, _ in result.uses()]
    thresholds = all((reader.domain, reader.op_type) == (GENERAL, "MultiThreshold") for reader in readers)
    if not thresholds or any(constant(reader.inputs[1]) is None for reader in readers) or result.is_graph_output():
        return "has results that are scaled, which would round otherwise"
    return ""
