"""Sink Pad below elementwise operators, so that they do not compute the padding."""

from __future__ import annotations

import math
from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument, text
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import holds_only
from onnx_passes.graph.shapes import dims
from onnx_passes.graph.traits import operators
from onnx_passes.passes.move.forms import MovePass, exchange, shaped
from onnx_passes.passes.move.steady import UNSTEADY
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

KEEP_ZERO = operators("elementwise", arity=1, keeps_zero=True)


def _pad_then(op: Builder, node: ir.Node, pad: ir.Node) -> Rewritten:
    mode, value, old = text(pad, "mode", "constant"), argument(pad, 2), pad.attributes.get("value")
    is_zero = holds_only(value, 0.0) or (value is None and (old is None or (not old.is_ref() and old.value == 0)))
    if mode is None or (mode == "constant" and not is_zero):
        return no("the padding is not zero", at=pad)
    if mode == "constant" and not _keeps_zero(node):
        return no("with its attributes, the operator does not keep zero", at=node)
    x = pad.inputs[0]
    inner = shaped(op.like(node, [x, *node.inputs[1:]]), dims(x))
    return op.like(pad, [inner, *pad.inputs[1:]])


def _keeps_zero(node: ir.Node) -> bool:
    numbers = [attr.value for attr in node.attributes.values() if attr.type is ir.AttributeType.FLOAT]
    known = all(isinstance(number, float | int) and math.isfinite(number) for number in numbers)
    return known and not (node.op_type == "Celu" and 0 in numbers)


def _past_each(*, steady: bool) -> list[Rule]:
    return [exchange(name, "Pad", _pad_then) for name in KEEP_ZERO if (name not in UNSTEADY) is steady]


@passes.verify.equality
@passes.register("reorder")
class MovePadDown(MovePass):
    """Sink Pad below operators that keep the padded value.

    Rewrites: ``f(Pad(x))`` → ``Pad(f(x))`` for elementwise operators that keep zero, if the padding is zero; and for
              padding with elements of ``x`` (modes edge, reflect and wrap).
    Refuses:  other values; infinite attributes, and Celu with ``alpha = 0``, which turn zero into NaN; a padded value
              with other consumers; Relu of half precision in opset 18.
    Exactness: bit-exact; functions that round differently in other places are left to ``move-pad-down-rounding``.
    """

    moves = partial(_past_each, steady=True)


@passes.verify.tolerance
@passes.register("reorder")
class MovePadDownRounding(MovePass):
    """Sink Pad below functions whose last bits depend on where an element lies in memory.

    Rewrites: as ``move-pad-down``, for transcendental functions.
    Refuses:  the cases that ``move-pad-down`` refuses.
    Exactness: up to rounding.
    """

    moves = partial(_past_each, steady=False)
