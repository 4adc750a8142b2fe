"""Laws that move constant factors out of matrix products, convolutions and sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import held
from onnx_passes.graph.shapes import is_float, rank
from onnx_passes.ops.number_systems.constants import wide
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Rewritten


def _is_usable(s: ir.Value) -> bool:
    return not is_float(s) or bool((np.isfinite(wide(held(s))) & (held(s) != 0)).all())


def _spread(s: ir.Value, x: ir.Value, y: ir.Value, axis: int) -> np.ndarray | None:
    """Return the factor for the product of ``x`` and ``y``; None if it varies along the contracted axis."""
    factor, ranks = held(s), (rank(x), rank(y))
    if factor.size == 1:
        # A factor of rank one would give rank to the product of two vectors.
        return factor.reshape(())
    if None in ranks or min(r for r in ranks if r is not None) < 2:
        return None
    varies = factor.ndim >= -axis and factor.shape[axis] != 1
    return None if varies else factor


def _is_spread(s: ir.Value, x: ir.Value, y: ir.Value, axis: int) -> bool:
    return _spread(s, x, y, axis) is not None


def _is_single(s: ir.Value) -> bool:
    return held(s).size == 1


def _scaled_later(op: Builder, node: ir.Node, x: ir.Value, s: ir.Value) -> Rewritten:
    return op.Mul(op.like(node, [x, *node.inputs[1:]]), held(s).reshape(()))


_law = Vocabulary(_is_single, _is_spread, _is_usable, _scaled_later, _spread).law


def _factor(x: str, applies: str) -> Sequence[When]:
    """Return the conditions on a factor ``s`` of ``x``."""
    return (
        When(f"is_constant(s) and not is_constant({x})", "not one operand of the product is constant"),
        When(f"{applies}(s)", "another pass handles this type"),
        When("is_usable(s)", "the factor is zero or not finite"),
        When(f"keeps_shape({x}, scaled, s)", "the factor may widen its operand"),
    )


def _products(applies: str) -> Sequence[Law]:
    return tuple(
        _law(
            f"{product} → x @ y * spread(s, x, y, {axis})",
            *_factor(scaled, applies),
            When(f"is_spread(s, x, y, {axis})", "the factor varies along the summed axis"),
            name=name,
        )
        for product, scaled, axis, name in (
            ("(scaled := x * s) @ y", "x", -1, "MatMulOfLeft"),
            ("x @ (scaled := y * s)", "y", -2, "MatMulOfRight"),
        )
    )


@passes.verify.equality
@passes.register("factorize")
class FactorizeLinear(LawPass):
    """Factor constant scales of integers out of matrix products.

    Rewrites: ``(x * s) @ y`` → ``(x @ y) * s`` and ``x @ (y * s)`` → ``(x @ y) * s``, with one number ``s`` or one for
              each row of ``x`` or column of ``y``.
    Refuses:  floats; reductions, in which a runtime may sum integers as floats; factors that a caller may override,
              that vary along a summed axis or may widen the other operand; operands of unknown rank, or of rank one
              unless ``s`` is one number; a scaled operand with other consumers.
    Exactness: bit-exact; integers wrap around.
    """

    fuzz_hints = hints(dtypes=["int32", "int64"])
    laws = _products("is_whole")


@passes.verify.tolerance
@passes.register("fast-math")
class FactorizeLinearFast(LawPass):
    """Factor constant scales of floats out of matrix products, convolutions, sums and means.

    Rewrites: matrix products as in ``factorize-linear``; ``Conv(x * s, w)`` → ``Conv(x, w) * s``, ``ReduceSum(x * s)``
              → ``ReduceSum(x) * s`` and ``ReduceMean(x * s)`` → ``ReduceMean(x) * s`` with one number ``s``.
    Refuses:  shapes and uses that ``factorize-linear`` refuses; factors that are zero or not finite; convolutions
              with a bias.
    Exactness: rounding; intermediate overflow may appear or disappear.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(
        constants={"s": [2.0, -0.5, [3.0], [[0.25]], 1e30, [[2.0], [3.0]], 0.37, -7.0, [0.1], [[[[5.0]]]], 1.0]},
        dtypes=["float32", "float64"],
    )
    laws = (
        *_products("is_float"),
        *(
            _law(
                f"{f}(scaled := x * s, {others}) → scaled_later(result, x, s)",
                *_factor("x", "is_float"),
                When("is_single(s)", "the factor is not one number"),
                name=f,
            )
            for f, others in (("Conv", "w"), ("ReduceSum", "..."), ("ReduceMean", "..."))
        ),
    )
