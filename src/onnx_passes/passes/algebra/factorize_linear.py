"""Take constant factors out of matrix products, convolutions and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.graph.arithmetic import wide
from onnx_passes.graph.constants import constant, held, is_constant
from onnx_passes.graph.shapes import is_float, is_whole, keeps_shape, rank
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.match import Match
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.refusal import Refusal, no, yes
from onnx_passes.rewrite.rule import Rule

Applies = Callable[[ir.Value], bool]


@passes.verify.equality
@passes.register("factorize")
class FactorizeLinear(Transformation, RewriteRuleSetPass):
    """Factor constant scales of integers out of matrix products.

    Rewrites: ``(x * s) @ y`` → ``(x @ y) * s`` and ``x @ (y * s)`` → ``(x @ y) * s``, with one number ``s`` or one for
              each row of ``x`` or column of ``y``.
    Refuses:  floats; reductions, in which a runtime may sum integers as floats; factors that a caller may override,
              that vary along a summed axis or may widen what they meet; operands of unknown rank, or of rank one unless
              ``s`` is one number; a scaled operand that others use.
    Exactness: bit-exact; integers wrap around.
    """

    needs = ("shape-inference",)
    fuzz_hints = hints(dtypes=["int32", "int64"])

    def rules(self) -> Sequence[Rule]:
        """Return the rules of both operands."""
        return [_left(is_whole), _right(is_whole)]


@passes.verify.tolerance
@passes.register("fast-math")
class FactorizeLinearFast(Transformation, RewriteRuleSetPass):
    """Factor constant scales of floats out of matrix products, convolutions, sums and means.

    Rewrites: what ``factorize-linear`` rewrites; ``Conv(x * s, w)`` → ``Conv(x, w) * s``, ``ReduceSum(x * s)`` →
              ``ReduceSum(x) * s`` and ``ReduceMean(x * s)`` → ``ReduceMean(x) * s`` with one number ``s``.
    Refuses:  what ``factorize-linear`` refuses for its shape or use; factors that are zero or not finite; convolutions
              with a bias.
    Exactness: rounding; what overflows on the way, and only there, may be finite now, or the other way round.
    """

    needs = ("shape-inference",)
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(
        constants={"s": [2.0, -0.5, [3.0], [[0.25]], 1e30, [[2.0], [3.0]], 0.37, -7.0, [0.1], [[[[5.0]]]], 1.0]},
        dtypes=["float32", "float64"],
    )

    def rules(self) -> Sequence[Rule]:
        """Return the rules of products, convolutions, sums and means."""
        sums = [_reduced(name) for name in ("ReduceSum", "ReduceMean")]
        return [_left(is_float), _right(is_float), _convolved(), *sums]


def _refuse(x: ir.Value, s: ir.Value, scaled: ir.Value, applies: Applies) -> Refusal | None:
    """Say what speaks against any factor at all."""
    factor = constant(s)
    if factor is None or is_constant(x):
        return no("not one operand of the product is constant", at=s)
    if not applies(s):
        return no("the type is that of another pass", at=s)
    if is_float(s) and not (np.isfinite(wide(factor)) & (factor != 0)).all():
        return no("the factor is zero or not finite", at=s)
    return None if keeps_shape(x, scaled, s) else no("the factor may widen what it meets", at=s)


def _spread(s: ir.Value, x: ir.Value, y: ir.Value, *, axis: int) -> np.ndarray | None:
    """Return the factor for the product of two operands: one number, or one for all but the axis that is summed."""
    factor, ranks = held(s), (rank(x), rank(y))
    if factor.size == 1:
        # A factor of rank one would give rank to the product of two vectors.
        return factor.reshape(())
    if None in ranks or min(r for r in ranks if r is not None) < 2:
        return None
    varies = factor.ndim >= -axis and factor.shape[axis] != 1
    return None if varies else factor


def _left(applies: Applies) -> Rule:
    def pattern(op: Any, x: Any, s: Any, y: Any) -> Any:
        return op.MatMul(op.Mul(x, s, _outputs=["scaled"]), y)

    def check(op: Match, x: ir.Value, s: ir.Value, y: ir.Value, scaled: ir.Value) -> Any:
        refusal = _refuse(x, s, scaled, applies)
        if refusal is not None:
            return refusal
        return yes if _spread(s, x, y, axis=-1) is not None else no("the factor varies along the summed axis", at=s)

    def rewrite(op: Any, x: ir.Value, s: ir.Value, y: ir.Value) -> Any:
        return op.Mul(op.MatMul(x, y), _spread(s, x, y, axis=-1))

    return Rule(pattern, rewrite, check, name="MatMulOfLeft")


def _right(applies: Applies) -> Rule:
    def pattern(op: Any, x: Any, s: Any, y: Any) -> Any:
        return op.MatMul(x, op.Mul(y, s, _outputs=["scaled"]))

    def check(op: Match, x: ir.Value, s: ir.Value, y: ir.Value, scaled: ir.Value) -> Any:
        refusal = _refuse(y, s, scaled, applies)
        if refusal is not None:
            return refusal
        return yes if _spread(s, x, y, axis=-2) is not None else no("the factor varies along the summed axis", at=s)

    def rewrite(op: Any, x: ir.Value, s: ir.Value, y: ir.Value) -> Any:
        return op.Mul(op.MatMul(x, y), _spread(s, x, y, axis=-2))

    return Rule(pattern, rewrite, check, name="MatMulOfRight")


def _one_number(x: ir.Value, s: ir.Value, scaled: ir.Value) -> Any:
    refusal = _refuse(x, s, scaled, is_float)
    if refusal is not None:
        return refusal
    return yes if held(s).size == 1 else no("the factor is not one number", at=s)


def _convolved() -> Rule:
    def pattern(op: Any, x: Any, s: Any, w: Any) -> Any:
        return op.Conv(op.Mul(x, s, _outputs=["scaled"]), w, _outputs=["y"])

    def check(op: Match, x: ir.Value, s: ir.Value, scaled: ir.Value) -> Any:
        return _one_number(x, s, scaled)

    def rewrite(op: Any, x: ir.Value, s: ir.Value, w: ir.Value, y: ir.Value) -> Any:
        node = y.producer()
        assert node is not None
        return op.Mul(op.Conv(x, w, **node.attributes), held(s).reshape(()))

    return Rule(pattern, rewrite, check, name="Conv")


def _reduced(op_type: str) -> Rule:
    def pattern(op: Any, x: Any, s: Any) -> Any:
        scaled = op.Mul(x, s, _outputs=["scaled"])
        return getattr(op, op_type)(scaled, _allow_other_inputs=True, _outputs=["y"])

    def check(op: Match, x: ir.Value, s: ir.Value, scaled: ir.Value) -> Any:
        return _one_number(x, s, scaled)

    def rewrite(op: Any, x: ir.Value, s: ir.Value, y: ir.Value) -> Any:
        node = y.producer()
        assert node is not None
        return op.Mul(op.op(op_type, x, *node.inputs[1:], **node.attributes), held(s).reshape(()))

    return Rule(pattern, rewrite, check, name=op_type)
