"""Sink transpositions below matrix products."""

from __future__ import annotations

from functools import partial

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.permutations import Permutation, permutation
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.move.forms import MovePass, exchange
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_MATRIX = 2


def _product(op: Op, a: Var, b: Var) -> Var:
    left, right = op.Transpose(a, _outputs=["left"]), op.Transpose(b, _outputs=["right"])
    return op.MatMul(left, right, _outputs=["result"])


def _swap(op: Builder, a: ir.Value, b: ir.Value, left: ir.Value, right: ir.Value) -> Rewritten:
    for value in (left, right):
        perm = permutation(value.producer())
        if perm is None or perm != _swapped(len(perm)):
            return no("it does not swap the last two axes", at=value)
    length = max(len(permutation(value.producer()) or ()) for value in (left, right))
    return op.Transpose(op.MatMul(b, a), perm=_swapped(length))


def _swapped(length: int) -> Permutation | None:
    return [*range(length - 2), length - 1, length - 2] if length > 1 else None


def _past_rows(op: Builder, node: ir.Node, transpose: ir.Node) -> Rewritten:
    perm = permutation(transpose)
    if perm is None or rank(node.inputs[1]) != _MATRIX:
        return no("the rank is not known, or the right operand is not a matrix", at=node)
    if len(perm) < _MATRIX or perm[-1] != len(perm) - 1:
        return no("the last axis moves", at=transpose)
    return op.Transpose(op.MatMul(transpose.inputs[0], node.inputs[1]), perm=perm)


def _rules() -> list[Rule]:
    both = Rule(_product, _swap, name="Both", commute=False)
    return [both, exchange("MatMul", "Transpose", _past_rows, name="Rows")]


@passes.verify.tolerance
@passes.register("reorder")
class MoveTransposePastMatmul(MovePass):
    """Sink transposes below matrix products.

    Rewrites: ``MatMul(Transpose(a), Transpose(b))`` → ``Transpose(MatMul(b, a))``, if both swap the last two axes;
              ``MatMul(Transpose(a), b)`` → ``Transpose(MatMul(a, b))``, if ``b`` is a matrix and the last axis of ``a``
              is not moved.
    Refuses:  transpositions that are used elsewhere; vectors and unknown ranks; other permutations.
    Exactness: up to rounding; sums of products are taken in another order, and where they overflow, infinities and
              NaN may change.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc", "contract")
    moves = partial(_rules)
