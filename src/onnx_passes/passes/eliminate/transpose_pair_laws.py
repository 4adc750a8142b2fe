"""Laws of two transposes with a Reshape between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import Permutation, permutation, permuted, reshape_target
from onnx_passes.graph.shapes import Dim, dims
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.passes.move.reshape_axes import Groups, groups_of
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary
from onnx_passes.rewrite.refusal import Rewritten, no

_RESHAPE_HAS_AN_INPUT = 5


def _transposed_at_most_once(op: Builder, outer: ir.Node, between: ir.Node, inner: ir.Node) -> Rewritten:
    first, second = permutation(inner), permutation(outer)
    before, after, x = dims(between.inputs[0]), dims(between.outputs[0]), inner.inputs[0]
    if x is None or first is None or second is None or before is None or after is None:
        return no("the shapes are not known", at=outer)
    if op.opset < _RESHAPE_HAS_AN_INPUT:
        return no("Reshape has no input for the shape", at=between)
    groups = groups_of(before, after)
    if groups is None:
        return no("it is not known which axes are joined or split", at=between)
    places = _order_above(groups, first, second, after)
    if places is None or places != sorted(places):
        if any(is_used_elsewhere(node.outputs[0]) for node in (between, inner)):
            return no("an intermediate value has other consumers, and no node would be saved", at=between)
        if places is None:
            return _transposed_below(op, outer, groups, (first, second), (x, after))
        x = op.Transpose(x, perm=[*(axis for axis in range(len(first)) if axis not in places), *places])
    target = reshape_target(permuted(after, second))
    if target is None:
        return no("more than one size is unknown, or a size is zero", at=outer)
    return op.Reshape(x, np.array(target, np.int64))


def _order_above(groups: Groups, first: Permutation, second: Permutation, after: Sequence[Dim]) -> Permutation | None:
    """Return the order of the input axes, without those of size one, under both transposes together.

    None unless the second moves together all axes that the Reshape made of the same elements.
    """
    ordered = sorted(groups, key=lambda group: second.index(group[1][0]))
    if [axis for _, new in ordered for axis in new] != [axis for axis in second if after[axis] != 1]:
        return None
    return [first[axis] for old, _ in ordered for axis in old]


def _transposed_below(
    op: Builder,
    outer: ir.Node,
    groups: Groups,
    perms: tuple[Permutation, Permutation],
    reshaped: tuple[ir.Value, Sequence[Dim]],
) -> Rewritten:
    """Reshape before both transposes, if the first moves together all axes that the Reshape merges or splits."""
    (first, second), (x, after) = perms, reshaped
    ordered = sorted(groups, key=lambda group: first[group[0][0]])
    places = [first[axis] for old, _ in ordered for axis in old]
    if places != sorted(places):
        return no("both transposes separate axes that the Reshape joins and splits", at=outer)
    order = [*(axis for axis, size in enumerate(after) if size == 1), *(axis for _, new in ordered for axis in new)]
    target = reshape_target(permuted(after, order))
    if target is None:
        return no("more than one size is unknown, or a size is zero", at=outer)
    return op.Transpose(op.Reshape(x, np.array(target, np.int64)), perm=[order.index(axis) for axis in second])


_law = Vocabulary(_transposed_at_most_once, KeepsOrder=("Flatten", "Reshape", "Squeeze", "Unsqueeze")).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateTransposePair(LawPass):
    """Merge two transposes around a Reshape into one, or none where they cancel.

    Rewrites: ``Transpose(Reshape(Transpose(x)))`` → ``Reshape(x)``, ``Reshape(Transpose(x))`` or
              ``Transpose(Reshape(x))``, likewise for ``Flatten``, ``Squeeze`` and ``Unsqueeze`` between them: joined or
              split axes must move together on one side.
    Refuses:  shapes that do not determine which axes are joined or split; several unknown sizes, or empty ones; axes
              that both transposes separate; intermediate values with other consumers, unless the transposes cancel;
              opsets below 5.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[{x}] x) => (float[{y}] y) <int64[{len(shape)}] s = {{{", ".join(map(str, shape))}}}> {{
                t = Transpose <perm = {first}> (x) r = Reshape (t, s) y = Transpose <perm = {second}> (r)
            }}"""
            for x, first, shape, second, y in (
                ("1,12,4", [0, 2, 1], [1, 4, 3, 4], [0, 2, 3, 1], "1,3,4,4"),
                ("2,3,4", [0, 2, 1], [2, 2, 2, 3], [0, 3, 1, 2], "2,3,2,2"),
                ("4,2,3,8", [0, 3, 1, 2], [1, 8, 4, 6], [0, 3, 1, 2], "1,6,8,4"),
                ("2,3,4", [2, 0, 1], [4, 6], [1, 0], "6,4"),
                ("2,6", [1, 0], [2, 3, 2], [1, 2, 0], "3,2,2"),
                ("N,3,4", [0, 2, 1], [-1, 2, 2, 3], [0, 3, 2, 1], "N,3,2,2"),
                ("2,3,4", [1, 0, 2], [6, 4], [1, 0], "4,6"),
                ("2,2,2", [1, 0, 2], [2, 4], [1, 0], "4,2"),
            )
        ),
        "g (float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}>"
        " { t = Transpose <perm = [2, 1, 0]> (x) r = Squeeze (t, a) y = Transpose (r) }",
    )
    laws = (
        _law(
            "Transpose(between := KeepsOrder(inner := Transpose(x), ...)) →"
            " transposed_at_most_once(result, between, inner)",
            name="EliminateTransposePair",
            forks="duplicate",
        ),
    )
