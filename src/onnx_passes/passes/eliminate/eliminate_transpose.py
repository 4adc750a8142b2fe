"""Remove transpositions that move nothing, and make one of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arguments import integers
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.eliminate.forms import bypass, merging
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no, yes
from onnx_passes.rewrite.rule import Rule

_NO_INPUT = 1


@passes.verify.equality
@passes.register("eliminate")
class EliminateTranspose(Transformation, RewriteRuleSetPass):
    """Remove transposes without effect, and merge consecutive ones.

    Rewrites: ``Transpose<perm=[0,1]>(x)`` → ``x``;
              ``Transpose<perm=q>(Transpose<perm=p>(x))`` → ``Transpose<perm=p[q]>(x)``.
    Refuses:  a transposition without ``perm`` (which reverses the axes) of unknown rank.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)

    def rules(self) -> Sequence[Rule]:
        """Return the rules for one and for two."""
        return [bypass("Transpose", _moves_nothing), merging("Transpose", "Transpose", _compose)]


def _permutation(node: ir.Node, length: int | None = None) -> list[int] | None:
    given = node.attributes.get("perm")
    if given is not None:
        return integers(node, _NO_INPUT, "perm")
    length = rank(node.inputs[0]) if length is None else length
    return None if length is None else list(range(length))[::-1]


def _moves_nothing(node: ir.Node) -> Any:
    perm = _permutation(node)
    if perm is None:
        return no("the rank is not known", at=node)
    return yes if perm == sorted(perm) else no("it moves axes", at=node)


def _compose(op: Any, outer: ir.Node, inner: ir.Node) -> Any:
    first = _permutation(inner)
    second = _permutation(outer, None if first is None else len(first))
    if first is None and second is not None:
        first = _permutation(inner, len(second))
    x = inner.inputs[0]
    if first is None or second is None:
        both_reverse = "perm" not in inner.attributes and "perm" not in outer.attributes
        return x if both_reverse else no("the rank is not known", at=inner)
    perm = [first[axis] for axis in second]
    return x if perm == sorted(perm) else op.Transpose(x, perm=perm)
