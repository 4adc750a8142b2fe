"""Signs in FINN: bits whose agreements are counted, or two-bit numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.export.finn_annotations import level_type
from onnx_passes.passes.export.thresholds import is_threshold, step_function
from onnx_passes.passes.qonnx.dialect import GENERAL
from onnx_passes.rewrite.editor import Editor, Rewrite

_COUNT = "count of agreeing signs"
_WIDEN = "steps of one"
_LEAST = "levels from the least of their type"
_KEEPING = {
    *(("", name) for name in ("Flatten", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze")),
    (GENERAL, "Im2Col"),
    (GENERAL, "MaxPoolNHWC"),
}
"""Operators whose results are elements of their first input, unless they pad with zeros."""


@dataclass
class _Readers:
    """Nodes that move the signs of a node, and products of these with signs."""

    kept: list[ir.Node] = field(default_factory=list[ir.Node])
    products: list[ir.Node] = field(default_factory=list[ir.Node])


def replace_signs(editor: Editor, *, count: bool) -> None:
    """Convert thresholds to -1 and 1 to bits, or to consecutive integers.

    If only products with signs read them, and if ``count``, they become bits, and the products count agreements: ``K``
    signs with the sum ``s`` have ``p`` agreements, with ``s = 2p - K``. Others become -1, 0 and 1, of which 0 never
    occurs, as do all thresholds with levels further apart than one.
    """
    now: dict[ir.Node, ir.Node] = {}
    for given in tuple(editor.graph):
        source = now.get(given, given)
        found = _readers(source) if count and _yields_signs(source) else "products are not to be counted"
        if not isinstance(found, str):
            now |= _count_agreements(editor, source, found)
        elif _step(source) > 1:
            _widen(editor, source, found)
        if editor.stopped:
            return


def _yields_signs(node: ir.Node) -> bool:
    thresholds = constant(node.inputs[1]) if is_threshold(node) else None
    return (
        thresholds is not None
        and thresholds.shape[-1] == 1
        and node.attributes.get_float("out_scale", 1.0) == 2
        and node.attributes.get_float("out_bias", 0.0) == -1
    )


def _step(node: ir.Node) -> int:
    """Return the distance of the levels of thresholds if these are integers, else 0."""
    found = step_function(node) if is_threshold(node) else ""
    return 0 if isinstance(found, str) or found.levels.size < 2 else int(found.levels.flat[1] - found.levels.flat[0])


def _widen(editor: Editor, source: ir.Node, reason: str) -> None:
    """Repeat each threshold, so that one step becomes several steps of one."""
    given, held = source.inputs[1], constant(source.inputs[1])
    assert given is not None
    assert held is not None
    if _yields_signs(source):
        editor.refuse(_COUNT, reason, source)
        editor.context.note(f"the signs of {name_of(source)} take two bits: {reason}")
    with editor.rewrite(_WIDEN, source) as r:
        repeated = r.op.initializer(np.repeat(held, _step(source), axis=-1), f"{given.name}_repeated")
        r.replace(source.outputs[0], r.op.like(source, [source.inputs[0], repeated], out_scale=1.0))


def _count_agreements(editor: Editor, source: ir.Node, readers: _Readers) -> dict[ir.Node, ir.Node]:
    """Convert products to counts of agreeing bits; return the replacements of the nodes after them."""
    behind = [user for product in readers.products for user, _ in product.outputs[0].uses()]
    matched = dict.fromkeys([source, *readers.kept, *readers.products, *(node for node in behind if _absorbs(node))])
    replaced: dict[ir.Node, ir.Node] = {}
    with editor.rewrite(_COUNT, [*matched][-1], matched=[*matched]) as r:
        bits = _bits(r.op, source, readers.kept)
        for product in readers.products:
            x, given = product.inputs
            weights = constant(given)
            assert x is not None
            assert given is not None
            assert weights is not None
            agreeing = r.op.initializer((weights + 1) / 2, f"{given.name}_bits")
            counted = r.op.XnorPopcountMatMul(bits[x], agreeing, _domain=GENERAL)
            counted.name = f"{product.outputs[0].name}_agreeing"
            copy_type_and_shape(product.outputs[0], counted)
            replaced |= _continue(r, product.outputs[0], counted, len(weights))
    return replaced if r.applied else {}


def _bits(op: Builder, source: ir.Node, kept: list[ir.Node]) -> dict[ir.Value, ir.Value]:
    """Return the bits of the signs of a node, also after their movement."""
    binary = op.like(source, source.inputs, out_scale=1.0, out_bias=0.0, out_dtype="BINARY")
    found: dict[ir.Value, ir.Value] = {source.outputs[0]: binary}
    for node in kept:
        inputs = [None if value is None else found.get(value, value) for value in node.inputs]
        found[node.outputs[0]] = op.like(node, inputs)
    for old, new in found.items():
        new.name = f"{old.name}_bits"
        copy_type_and_shape(old, new)
    return found


def _continue(r: Rewrite, total: ir.Value, counted: ir.Value, length: int) -> dict[ir.Node, ir.Node]:
    """Replace the consumers of a sum of signs by consumers of the number of agreements.

    Half of the sum is as exact as the sum, and twice the factor as exact as the factor.
    """
    replaced: dict[ir.Node, ir.Node] = {}
    users = [user for user, _ in total.uses()]
    for user in filter(_absorbs, users):
        if is_threshold(user):
            new = r.op.like(user, [counted, _of_agreements(r.op, user, length)])
        else:
            factor = next(array for value in user.inputs if (array := constant(value)) is not None)
            halved = r.op.Add(counted, np.array([-length / 2], np.float32))
            halved.name = f"{total.name}_halved"
            copy_type_and_shape(total, halved)
            new = r.op.Mul(halved, 2 * factor)
        r.replace(user.outputs[0], new)
        replaced[user] = new.producer()
    if total.is_graph_output() or not all(map(_absorbs, users)):
        doubled = r.op.Mul(counted, np.array([2], np.float32))
        doubled.name = f"{total.name}_doubled"
        copy_type_and_shape(total, doubled)
        r.replace(total, r.op.Add(doubled, np.array([-length], np.float32)))
    return replaced


def _absorbs(user: ir.Node) -> bool:
    """Return whether a node can read counts instead of sums: thresholds move, factors double."""
    if is_threshold(user):
        return constant(user.inputs[1]) is not None
    return (user.domain, user.op_type) == ("", "Mul") and any(constant(value) is not None for value in user.inputs)


def _of_agreements(op: Builder, user: ir.Node, length: int) -> ir.Value:
    """Return thresholds of a sum of signs as thresholds of the number of agreements."""
    given, held = user.inputs[1], constant(user.inputs[1])
    assert given is not None
    assert held is not None
    moved = np.clip(np.ceil((held.astype(np.float64) + length) / 2), 0, length + 1)
    return op.initializer(moved.astype(np.float32), f"{given.name}_agreeing")


def _readers(source: ir.Node) -> _Readers | str:
    """Return the consumers of signs, or the reason why bits are not possible."""
    found = _Readers()
    waiting = [source.outputs[0]]
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return "they are an output of the model"
        for user, index in value.uses():
            if index == 0 and (user.domain, user.op_type) in _KEEPING and len(user.outputs) == 1:
                if _pads_with_zeros(user):
                    return f"{name_of(user)} pads them with zeros"
                found.kept.append(user)
                waiting.append(user.outputs[0])
                continue
            reason = _why_not(user, index)
            if reason:
                return f"{name_of(user)} {reason}"
            found.products.append(user)
    return found if found.products else "no product reads them"


def _pads_with_zeros(node: ir.Node) -> bool:
    return node.op_type == "Im2Col" and any(node.attributes.get_ints("pad_amount") or ())


def _why_not(user: ir.Node, index: int) -> str:
    """Return the reason why a consumer of signs cannot count them as bits; empty if it can."""
    if (user.domain, user.op_type) != ("", "MatMul") or index != 0:
        return "is not a product with weights"
    weights = constant(user.inputs[1])
    if weights is None or weights.ndim != 2 or (np.abs(weights) != 1).any():
        return "has other weights than -1 and 1"
    return ""


def begin_at_least_levels(editor: Editor) -> None:
    """Extend thresholds of counts down to the least number of their type, as FINN assumes for these."""
    for node in tuple(editor.graph):
        datatype = level_type(node) if _follows_count(node) else None
        lacking = 0 if datatype is None else int(node.attributes.get_float("out_bias", 0.0) - datatype.min)
        held = constant(node.inputs[1]) if lacking > 0 else None
        if held is not None and datatype is not None:
            with editor.rewrite(_LEAST, node) as r:
                reached = np.concatenate([np.zeros((len(held), lacking), held.dtype), held], axis=-1)
                kind = {"out_bias": float(datatype.min), "out_dtype": str(datatype)}
                r.replace(node.outputs[0], r.op.like(node, [node.inputs[0], reached], **kind))
        if editor.stopped:
            return


def _follows_count(node: ir.Node) -> bool:
    before = node.inputs[0].producer() if is_threshold(node) and node.inputs[0] is not None else None
    return before is not None and (before.domain, before.op_type) == (GENERAL, "XnorPopcountMatMul")
