"""Tensors of -1 and 1, and products that count where they agree."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor

_RULE = "count of agreeing signs"
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


def count_agreement(editor: Editor) -> None:
    """Put XnorPopcountMatMul of 0 and 1 in the place of products of -1 and 1, and move the thresholds behind them."""
    now: dict[ir.Node, ir.Node] = {}
    for given in tuple(editor.graph):
        source = now.get(given, given)
        if is_bipolar(source):
            now |= _count(editor, source)
        if editor.stopped:
            return


def _count(editor: Editor, source: ir.Node) -> dict[ir.Node, ir.Node]:
    """Let the products that use what a node yields count; returns which thresholds behind them are others now."""
    found = _readers(source)
    if isinstance(found, str):
        editor.refuse(_RULE, found, source)
        editor.context.note(f"{name_of(source)} stays bipolar: {found}")
        return {}
    kept, products = found
    readers = {product: [user for user, _ in product.outputs[0].uses()] for product in products}
    thresholds = [user for users in readers.values() for user in users]
    if not thresholds:
        return {}
    replaced: dict[ir.Node, ir.Node] = {}
    with editor.rewrite(_RULE, thresholds[-1], matched=[source, *kept, *products, *thresholds]) as r:
        binary = r.op.like(source, source.inputs, out_scale=1.0, out_bias=0.0, out_dtype="BINARY")
        bits: dict[ir.Value, ir.Value] = {source.outputs[0]: binary}
        for node in kept:
            inputs = [None if value is None else bits.get(value, value) for value in node.inputs]
            bits[node.outputs[0]] = r.op.like(node, inputs)
        for old, new in bits.items():
            new.name = f"{old.name}_bits"
            copy_type_and_shape(old, new)
        for product, users in readers.items():
            x, given = product.inputs
            weights = constant(given)
            assert x is not None
            assert given is not None
            assert weights is not None
            agreeing = r.op.initializer((weights + 1) / 2, f"{given.name}_bits")
            counted = r.op.XnorPopcountMatMul(bits[x], agreeing, _domain=GENERAL)
            counted.name = f"{product.outputs[0].name}_agreeing"
            copy_type_and_shape(product.outputs[0], counted)
            for user in users:
                new = r.op.like(user, [counted, _moved(r.op, user, len(weights))])
                r.replace(user.outputs[0], new)
                replaced[user] = new.producer()
    return replaced if r.applied else {}


def _moved(op: Builder, user: ir.Node, length: int) -> ir.Value:
    """Return thresholds of a sum of so many signs as those of how many agree."""
    given, held = user.inputs[1], constant(user.inputs[1])
    assert given is not None
    assert held is not None
    moved = np.clip(np.ceil((held.astype(np.float64) + length) / 2), 0, length + 1)
    return op.initializer(moved.astype(np.float32), f"{given.name}_agreeing")


def _readers(source: ir.Node) -> tuple[list[ir.Node], list[ir.Node]] | str:
    """Return what passes on -1 and 1, and the products of them; the reason if somebody else needs their signs."""
    kept: list[ir.Node] = []
    products: list[ir.Node] = []
    waiting = [source.outputs[0]]
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return "it is an output of the model"
        for user, index in value.uses():
            if index == 0 and _keeps(user):
                kept.append(user)
                waiting.append(user.outputs[0])
                continue
            reason = _why_not(user, index)
            if reason:
                return f"{name_of(user)} {reason}"
            products.append(user)
    return kept, products


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
