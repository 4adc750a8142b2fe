"""Remove squeezes and unsqueezes that do nothing or undo each other, and make one of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import argument, integers, is_given
from onnx_passes.graph.shapes import rank, static_shape, stays
from onnx_passes.passes.eliminate.forms import bypass, examples, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_UNKNOWN = no("the axes are not constant, or counted from an unknown end")
_NEW = -1


@passes.verify.equality
@passes.register("eliminate")
class EliminateSqueeze(Transformation, RewriteRuleSetPass):
    """Remove Squeeze and Unsqueeze nodes without effect, and merge or cancel consecutive ones.

    Rewrites: ``Squeeze(x)``, ``Unsqueeze(x, [])`` → ``x``, if the rank stays; ``Squeeze(Unsqueeze(x))`` and
              ``Unsqueeze(Squeeze(x))`` → ``x``, ``Squeeze(x)`` or ``Unsqueeze(x)``;
              ``Squeeze(Squeeze(x))`` → ``Squeeze(x)``; ``Unsqueeze(Unsqueeze(x))`` → ``Unsqueeze(x)``.
    Refuses:  axes that are computed, or counted from the end of an unknown rank; a pair that still both removes and
              adds axes.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
        *(
            f"""g ({kind} x, float[2,1,3] v) => ({kind} y, {kind} z, float[2,1,3] w)
                <int64[0] none = {{}}, int64[1] one = {{1}}> {{
                y = Squeeze (x) z = Unsqueeze (x, none) t = Squeeze (v, one) w = Unsqueeze (t, one)
            }}"""
            for kind in (
                "float[2,3]",
                "int8",
                "bool[4,0,2]",
                "float[5]",
                "double[3,2,7]",
                "int64[2]",
                "float16[2,2,2]",
                "int8[3]",
                "bool[2,2]",
                "float[3,0]",
                "double",
                "int64[2,3,2]",
                "float16",
                "int32[2]",
                "uint8[4]",
            )
        )
    )

    def rules(self) -> Sequence[Rule]:
        """Return the rules for one and for two."""
        both = ("Squeeze", "Unsqueeze")
        return [
            bypass("Squeeze", _keeps_rank),
            bypass("Unsqueeze", _keeps_rank),
            *(merging(outer, inner, _merge) for outer in both for inner in both),
        ]


def _keeps_rank(node: ir.Node) -> Any:
    nothing = node.op_type == "Unsqueeze" and integers(node, 1, "axes") == []
    return yes if nothing or stays(node) else no("the rank changes", at=node)


def _axes(node: ir.Node, length: int) -> list[int] | None:
    """Return the axes, counted from the front of the longer one of input and output, which has this rank."""
    if not is_given(node, 1, "axes"):
        shape = static_shape(node.inputs[0])
        return None if shape is None else [axis for axis, size in enumerate(shape) if size == 1]
    axes = integers(node, 1, "axes")
    return None if axes is None else sorted(axis + length if axis < 0 else axis for axis in axes)


def _apply(layout: list[int], node: ir.Node) -> list[int] | None:
    """Let a node remove or insert axes of a layout: numbers of axes of the first input, or new ones."""
    if node.op_type == "Squeeze":
        axes = _axes(node, len(layout))
        return None if axes is None else [item for axis, item in enumerate(layout) if axis not in axes]
    given = integers(node, 1, "axes")
    axes = None if given is None else _axes(node, len(layout) + len(given))
    if axes is None:
        return None
    result = list(layout)
    for axis in axes:
        result.insert(axis, _NEW)
    return result


def _merge(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    x, length = inner.inputs[0], rank(inner.inputs[0])
    if length is None:
        return x if _undoes(outer, inner) else _UNKNOWN
    between = _apply(list(range(length)), inner)
    after = None if between is None else _apply(between, outer)
    if between is None or after is None:
        return _UNKNOWN
    removed = [axis for axis in range(length) if axis not in after]
    if inner.op_type == "Squeeze" and len(after) == length and _brings_back(after, removed):
        return x
    added = [axis for axis, item in enumerate(after) if item == _NEW]
    if removed and added:
        return no("axes are both removed and added", at=outer)
    if not removed and not added:
        return x
    op_type, axes = ("Squeeze", removed) if removed else ("Unsqueeze", added)
    build = getattr(op, op_type)
    return build(x, axes=axes) if argument(outer, 1) is None and "axes" in outer.attributes else build(x, _list(axes))


def _brings_back(after: list[int], removed: list[int]) -> bool:
    """Tell whether axes of size one come back where they were."""
    return all(item == axis or (item == _NEW and axis in removed) for axis, item in enumerate(after))


def _undoes(outer: ir.Node, inner: ir.Node) -> bool:
    """Tell whether a node takes back what another did, both with the same axes of a rank that is the same."""
    if outer.op_type == inner.op_type:
        return False
    first, second = integers(inner, 1, "axes"), integers(outer, 1, "axes")
    return first is not None and second is not None and sorted(first) == sorted(second)


def _list(axes: list[int]) -> np.ndarray:
    return np.array(axes, np.int64)
