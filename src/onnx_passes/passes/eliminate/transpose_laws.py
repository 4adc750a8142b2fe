"""Laws of Transpose: alone, in pairs, and next to a Reshape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import moves_only_ones, permutation, reshape_target
from onnx_passes.graph.shapes import Dim, dims
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_RESHAPE_HAS_AN_INPUT = 5


def _moves_nothing(node: ir.Node) -> Answer:
    perm = permutation(node)
    if perm is None:
        return no("the rank is not known", at=node)
    return yes if perm == sorted(perm) else no("it moves axes", at=node)


def _transposed_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    first = permutation(inner)
    second = permutation(outer, None if first is None else len(first))
    if first is None and second is not None:
        first = permutation(inner, len(second))
    x = inner.inputs[0]
    if first is None or second is None:
        both_reverse = "perm" not in inner.attributes and "perm" not in outer.attributes
        return x if both_reverse else no("the rank is not known", at=inner)
    perm = [first[axis] for axis in second]
    return x if perm == sorted(perm) else op.Transpose(x, perm=perm)


def _reshaped_after(op: Builder, transpose: ir.Node, reshape: ir.Node) -> Rewritten:
    perm, sizes = permutation(transpose), dims(transpose.inputs[0])
    if perm is None or sizes is None:
        return no("the shape is not known", at=transpose)
    return _reshaped(op, reshape.inputs[0], transpose, [sizes[axis] for axis in perm])


def _reshaped_before(op: Builder, reshape: ir.Node, transpose: ir.Node) -> Rewritten:
    return _reshaped(op, transpose.inputs[0], transpose, dims(reshape.outputs[0]))


def _reshaped(op: Builder, x: ir.Value | None, transpose: ir.Node, result: Sequence[Dim] | None) -> Rewritten:
    perm, sizes = permutation(transpose), dims(transpose.inputs[0])
    if perm is None or sizes is None or result is None:
        return no("the shape is not known", at=transpose)
    if not moves_only_ones(perm, sizes):
        return no("it moves axes of other sizes than one", at=transpose)
    target = reshape_target(result)
    if target is None:
        return no("more than one size is unknown, or a size is zero", at=transpose)
    if op.opset < _RESHAPE_HAS_AN_INPUT:
        return no("Reshape has no input for the shape", at=transpose)
    return op.Reshape(x, np.array(target, np.int64))


_law = Vocabulary(_moves_nothing, _reshaped_after, _reshaped_before, _transposed_once).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateTranspose(LawPass):
    """Remove transposes without effect, and merge consecutive ones.

    Rewrites: ``Transpose<perm=[0,1]>(x)`` → ``x``;
              ``Transpose<perm=q>(Transpose<perm=p>(x))`` → ``Transpose<perm=p[q]>(x)``.
    Refuses:  a transposition without ``perm`` (which reverses the axes) if the rank is unknown.
    Exactness: bit-exact.
    """

    laws = (
        _law("Transpose(x) → x", When("moves_nothing(result)")),
        _law(
            "Transpose(inner := Transpose(x)) → transposed_once(result, inner)",
            name="TransposeOfTranspose",
            forks="duplicate",
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateTransposeOfReshape(LawPass):
    """Remove transposes next to a Reshape that only move axes of size one.

    Rewrites: ``Transpose<perm=[0,2,1,3]>(Reshape(x, [-1, 1, 2, 4]))`` → ``Reshape(x, [-1, 2, 1, 4])``;
              ``Reshape(Transpose(x), s)`` → ``Reshape(x, t)`` with ``t`` the sizes of the result.
    Refuses:  moved axes of other or unknown sizes; a result with more than one unknown size, or an empty one;
              opsets below 5.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[{x}] x) => (float[{y}] y) <int64[4] s = {{{shape}}}> {{
                r = Reshape (x, s) y = Transpose <perm = {perm}> (r)
            }}"""
            for x, shape, perm, y in (
                ("2,4", "2, 1, 2, 2", "[0, 2, 1, 3]", "2,2,1,2"),
                ("6", "-1, 1, 3, 1", "[0, 2, 3, 1]", "2,3,1,1"),
                ("3,4", "1, 3, 1, 4", "[1, 0, 3, 2]", "3,1,4,1"),
            )
        ),
        """g (float[2,1,3,1] x) => (float[3,2] y) <int64[2] s = {3, 2}> {
            t = Transpose <perm = [1, 0, 3, 2]> (x) y = Reshape (t, s)
        }""",
        """g (float[1,4,1] x) => (float[2,2] y) <int64[2] s = {2, -1}> { t = Transpose (x) y = Reshape (t, s) }""",
    )
    laws = (
        _law(
            "Transpose(inner := Reshape(x, ...)) → reshaped_after(result, inner)",
            name="TransposeOfReshape",
            forks="duplicate",
        ),
        _law(
            "Reshape(inner := Transpose(x), ...) → reshaped_before(result, inner)",
            name="ReshapeOfTranspose",
            forks="duplicate",
        ),
    )
