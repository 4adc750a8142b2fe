"""Remove padding by nothing, and pad once instead of twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integers, text
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.eliminate.forms import bypass, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_REPEATABLE = ("constant", "edge")


@passes.verify.equality
@passes.register("eliminate")
class EliminatePad(Transformation, RewriteRuleSetPass):
    """Remove Pad nodes without effect, and merge consecutive ones.

    Rewrites: ``Pad(x, [0, …])`` → ``x``; ``Pad(Pad(x, p), q)`` → ``Pad(x, p + q)``, if both pad with the same constant
              or both repeat the edge.
    Refuses:  amounts that are computed; negative ones, when there are two; different modes, values or axes.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for one and for two."""
        return [bypass("Pad", _adds_nothing), merging("Pad", "Pad", _merge)]


def _adds_nothing(node: ir.Node) -> Any:
    pads = integers(node, 1, "pads")
    if pads is None:
        return no("the amounts are not constant", at=node)
    return no("it adds or removes something", at=node) if any(pads) else yes


def _merge(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    x, length = inner.inputs[0], rank(inner.inputs[0])
    mode = text(inner, "mode", "constant")
    if mode not in _REPEATABLE or mode != text(outer, "mode", "constant"):
        return no("the modes differ, or mirror what is there", at=outer)
    if mode == "constant" and not _same_filling(inner, outer):
        return no("the values differ, or are not constant", at=outer)
    first, second = _amounts(inner, length), _amounts(outer, length)
    if first is None or second is None or len(first) != len(second):
        return no("the amounts are not constant, or the axes differ", at=outer)
    if any(amount < 0 for amount in (*first, *second)):
        return no("something is cut off in between", at=outer)
    pads = [p + q for p, q in zip(first, second, strict=True)]
    if argument(outer, 1) is None:
        return op.Pad(x, mode=mode, pads=pads, value=outer.attributes.get("value"))
    filling = argument(outer, 2)
    value = [] if filling is None else [filling]
    return op.Pad(x, np.array(pads, np.int64), *value, mode=mode)


def _amounts(node: ir.Node, length: int | None) -> list[int] | None:
    """Return the amounts for all axes: the starts, then the ends."""
    pads, given = integers(node, 1, "pads"), argument(node, 3)
    if pads is None or given is None:
        return pads
    axes = integers(node, 3)
    if axes is None or length is None:
        return None
    spread = [0] * (2 * length)
    for at, axis in enumerate(axes):
        spread[axis % length] = pads[at]
        spread[axis % length + length] = pads[at + len(axes)]
    return spread


def _same_filling(inner: ir.Node, outer: ir.Node) -> bool:
    if argument(outer, 1) is None:
        values = [node.attributes.get("value") for node in (inner, outer)]
        return all(value is None for value in values)
    first, second = argument(inner, 2), argument(outer, 2)
    if first is None and second is None:
        return True
    return first is second or _bits(first, outer) == _bits(second, inner) is not None


def _bits(filling: ir.Value | None, other: ir.Node) -> bytes | None:
    """Return what a constant filling holds; one that is left out is a zero."""
    array = constant(filling)
    if array is not None:
        return array.tobytes() if array.dtype != object else None
    like = constant(argument(other, 2)) if filling is None else None
    return None if like is None or like.dtype == object else np.zeros_like(like).tobytes()
