"""Laws of Clip, Relu, Max and Min with constant bounds."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import is_integral
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_COMBINE = {"Max": np.maximum, "Min": np.minimum}


def _has_no_bounds(node: ir.Node) -> Answer:
    if any(value is not None for value in node.inputs[1:]) or "min" in node.attributes or "max" in node.attributes:
        return no("it has bounds", at=node)
    return yes if is_integral(node.inputs[0]) else no("infinities become finite", at=node)


def _clipped_once(op: Builder, outer: ir.Node, inner: ir.Node) -> Rewritten:
    x = inner.inputs[0]
    if x is None or x.dtype is None:
        return no("the type is not known", at=x)
    if any(name in node.attributes for node in (outer, inner) for name in ("min", "max")):
        return no("the bounds are attributes", at=outer)
    first, second = _bounds(inner, x.dtype), _bounds(outer, x.dtype)
    if first is None or second is None:
        return no("a bound is not a constant number", at=outer)
    zeros = {bool(np.signbit(np.float64(bound))) for bound in (*first, *second) if bound == 0}
    if len(zeros) > 1:
        return no("the bounds are zeros of both signs", at=outer)
    low, high = (_clip(_clip(bound, first), second) for bound in _extremes(x.dtype))
    for zero in (np.array(sign * 0.0).astype(x.dtype.numpy()) for sign in (1, -1)):
        if _clip(_clip(zero, first), second).tobytes() != _clip(zero, (low, high)).tobytes():
            return no("the sign of a zero would change", at=outer)
    bounds = (low, high)
    given = [None if bound == default else bound for bound, default in zip(bounds, _finite(x.dtype), strict=True)]
    return op.Clip(x, *given)


def _extremes(dtype: ir.DataType) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest number of a type, infinities included."""
    if not dtype.is_floating_point():
        return _finite(dtype)
    return np.array(-np.inf).astype(dtype.numpy()), np.array(np.inf).astype(dtype.numpy())


def _finite(dtype: ir.DataType) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest finite number of a type: the default bounds of Clip."""
    kind = dtype.numpy()
    info = cast(Any, ml_dtypes).finfo(kind) if dtype.is_floating_point() else np.iinfo(kind)
    return np.array(info.min, kind), np.array(info.max, kind)


def _bounds(node: ir.Node, dtype: ir.DataType) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the bounds of a Clip or Relu; None if they are not constant."""
    if node.op_type == "Relu":
        return np.array(0).astype(dtype.numpy()), _extremes(dtype)[1]
    found: list[np.ndarray] = []
    for index, default in enumerate(_finite(dtype), 1):
        value = argument(node, index)
        bound = default if value is None else constant(value)
        if bound is None or bound.size != 1 or bound.dtype != dtype.numpy() or bound != bound:
            return None
        found.append(bound.reshape(()))
    return found[0], found[1]


def _clip(number: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    low, high = bounds
    number = low if number < low else number
    return high if high < number else number


def _combined(op_type: str, c: ir.Value, d: ir.Value) -> np.ndarray | None:
    """Combine two constants; None if their order could affect the result."""
    first, second = constant(c), constant(d)
    if first is None or second is None or first.dtype == object:
        return None
    try:
        combined = _COMBINE[op_type](first, second)
    except ValueError:
        return None
    if combined.size > max(first.size, second.size):
        return None
    ambiguous = not is_integral(c) and bool(((combined == 0) | (combined != combined)).any())
    return None if ambiguous else np.asarray(combined, first.dtype)


def _can_combine(op_type: str, c: ir.Value, d: ir.Value) -> bool:
    return _combined(op_type, c, d) is not None


def _with_both(op: Builder, outer: ir.Node, inner: ir.Node, c: ir.Value, d: ir.Value) -> Rewritten:
    others = [*inner.inputs, *outer.inputs]
    kept = [value for value in others if value not in (inner.outputs[0], c, d)]
    if len(kept) + 3 != len(others):
        return no("an input comes twice", at=outer)
    if len(kept) > 1 and not is_integral(c):
        # ONNX Runtime chooses between zeros by operand position and broadcast loop.
        return no("zeros of both signs may meet in another order", at=outer)
    return op.op(outer.op_type, *kept, _combined(outer.op_type, c, d))


_law = Vocabulary(_can_combine, _clipped_once, _has_no_bounds, _with_both).law


@passes.verify.equality
@passes.register("eliminate")
class EliminateClip(LawPass):
    """Remove Clip without bounds, and merge consecutive Clip and Relu nodes.

    Rewrites: ``Clip(x)`` of integers → ``x``; ``Clip(Clip(x))``, ``Clip(Relu(x))``, ``Relu(Clip(x))`` → one
              ``Clip(x)``, between the images of the least and the greatest number. Disjoint bounds give a single
              number, as the last ``max`` wins: ``Clip(Clip(x, 0, 1), 2, 3)`` → ``Clip(x, 2, 2)``.
    Refuses:  ``Clip`` of floats without bounds, which makes infinities finite; bounds that are computed or NaN; zeros
              of both signs as bounds; a merged range that is only zero: ``Relu(Clip(x, -5, -1))``
              turns ``-0.0`` into ``0.0``, but ``Clip(x, 0, 0)`` keeps it.
    Exactness: bit-exact.
    """

    laws = (
        _law("Clip(x, ...) → x", When("has_no_bounds(result)")),
        *(
            _law(f"{f}(inner := {g}(x, ...), ...) → clipped_once(result, inner)", name=f"{f}Of{g}", forks="duplicate")
            for f, g in (("Clip", "Clip"), ("Clip", "Relu"), ("Relu", "Clip"))
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateMinMax(LawPass):
    """Merge two consecutive Max, or Min, nodes with constant operands.

    Rewrites: ``Max(Max(x, c), d)`` → ``Max(x, max(c, d))``, of integers also with more inputs than one, in any order.
    Refuses:  constants that a caller may override; NaN; a zero as the larger (smaller) constant of floats, or several
              other inputs of floats: the sign of zeros depends on the order; constants that would grow by
              broadcasting; an inner node with other consumers.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [1, 2, [3, 4], -1.5], "d": [2, 1, [5, 1], [[7]]]})
    laws = tuple(
        _law(
            f"{f}(inner := {f}(x, c, ...), d, ...) → with_both(result, inner, c, d)",
            When("is_constant(c) and is_constant(d)", "not both nodes have a constant operand"),
            When(f"can_combine({f!r}, c, d)", "the constants cannot be combined"),
        )
        for f in _COMBINE
    )
