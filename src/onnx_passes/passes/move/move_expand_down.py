"""Sink Expand and Tile: compute first, repeat afterwards."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.shapes import dims
from onnx_passes.passes.move.forms import MovePass, exchange, operands, shaped, slots
from onnx_passes.passes.move.steady import elementwise
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

REPEATS = ("Expand", "Tile")
_MAY_FAIL = ("Div", "Mod")
"""With integers: an expansion to an empty tensor may have avoided a division by zero."""
_WIDELY_KNOWN = frozenset({"FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT32", "INT64", "UINT8"})
"""Element types that runtimes can expand and tile."""


def _past_elementwise(*, steady: bool) -> list[Rule]:
    return [
        exchange(name, REPEATS, _compute_first, slot=slot)
        for name in elementwise(steady=steady)
        for slot in (range(1) if name == "PRelu" else slots(name))
    ]


def _compute_first(op: Builder, node: ir.Node, repeat: ir.Node) -> Rewritten:
    moved, x = repeat.outputs[0], repeat.inputs[0]
    if "broadcast" in node.attributes:
        return no("opset < 7 has no implicit broadcasting", at=node)
    if node.op_type in _MAY_FAIL and (moved.dtype is None or not moved.dtype.is_floating_point()):
        return no("a new integer division may fail", at=node)
    made = node.outputs[0].dtype
    if made != moved.dtype and (made is None or made.name not in _WIDELY_KNOWN):
        return no("a runtime may not support Expand or Tile of this type", at=node)
    data, others = operands(node)
    whole = dims(x)
    for value in data:
        sizes = dims(value)
        single = sizes is not None and all(size == 1 for size in sizes)
        if value is not moved and not (single and (not sizes or (whole is not None and len(sizes) <= len(whole)))):
            return no("an operand is not known to be a single element", at=value)
    inner = op.like(node, [*(x if value is moved else value for value in data), *others])
    return op.like(repeat, [shaped(inner, whole), *repeat.inputs[1:]])


@passes.verify.equality
@passes.register("reorder", "unbroadcast")
class MoveExpandDown(MovePass):
    """Sink Expand and Tile towards the outputs, so that nothing is computed twice.

    Rewrites: ``f(Expand(x))`` → ``Expand(f(x))`` and ``f(Tile(x))`` → ``Tile(f(x))`` for elementwise operators, with
              several operands if each other one has a single element.
    Refuses:  results with other consumers; other operands that are not known to be single elements; integer division;
              casts to rarely supported types; Relu of half precision in opset 18.
    Exactness: bit-exact; functions that round differently in other places are left to ``move-expand-down-rounding``.
    """

    moves = partial(_past_elementwise, steady=True)


@passes.verify.tolerance
@passes.register("reorder", "unbroadcast")
class MoveExpandDownRounding(MovePass):
    """Sink Expand and Tile below functions whose last bits depend on where an element lies in memory.

    Rewrites: as ``move-expand-down``, for transcendental functions, Max, Min and Where.
    Refuses:  the cases that ``move-expand-down`` refuses; Pow of integers.
    Exactness: up to rounding, and the sign of zeros for Max, Min and Where.
    """

    moves = partial(_past_elementwise, steady=False)
