"""Let Reshape move axes of size one itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.shapes import Dim, dims
from onnx_passes.passes.eliminate.forms import examples, merging
from onnx_passes.passes.move.layout import moves_only_ones, permutation, reshape_target
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import no
from onnx_passes.rewrite.rule import Rule

_RESHAPE_HAS_AN_INPUT = 5


@passes.verify.equality
@passes.register("eliminate")
class EliminateTransposeOfReshape(Transformation, RewriteRuleSetPass):
    """Remove transposes next to a Reshape that only move axes of size one.

    Rewrites: ``Transpose<perm=[0,2,1,3]>(Reshape(x, [-1, 1, 2, 4]))`` → ``Reshape(x, [-1, 2, 1, 4])``;
              ``Reshape(Transpose(x), s)`` → ``Reshape(x, t)`` with ``t`` the sizes of the result.
    Refuses:  moved axes of other sizes, or of unknown ones; a result of more than one unknown size, or an empty one;
              opsets below 5.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints: ClassVar[Mapping[str, Any]] = examples(
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

    def rules(self) -> Sequence[Rule]:
        """Return the rules for both orders."""
        return [merging("Transpose", "Reshape", _after), merging("Reshape", "Transpose", _before)]


def _after(op: Any, transpose: ir.Node, reshape: ir.Node) -> Any:
    perm, sizes = permutation(transpose), dims(transpose.inputs[0])
    if perm is None or sizes is None:
        return no("the shape is not known", at=transpose)
    return _reshaped(op, reshape.inputs[0], transpose, [sizes[axis] for axis in perm])


def _before(op: Any, reshape: ir.Node, transpose: ir.Node) -> Any:
    return _reshaped(op, transpose.inputs[0], transpose, dims(reshape.outputs[0]))


def _reshaped(op: Any, x: ir.Value | None, transpose: ir.Node, result: Sequence[Dim] | None) -> Any:
    perm, sizes = permutation(transpose), dims(transpose.inputs[0])
    if perm is None or sizes is None or result is None:
        return no("the shape is not known", at=transpose)
    if not moves_only_ones(perm, sizes):
        return no("it moves axes of other sizes than one", at=transpose)
    target = reshape_target(result)
    if target is None:
        return no("more than one size is not known, or there is nothing to move", at=transpose)
    if op.opset < _RESHAPE_HAS_AN_INPUT:
        return no("Reshape has no input for the shape", at=transpose)
    return op.Reshape(x, np.array(target, np.int64))
