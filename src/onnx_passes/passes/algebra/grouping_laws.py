"""Laws of associative operators: reassociate so that constants fold."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, constant_tensor, grows, held, is_constant
from onnx_passes.graph.shapes import keeps_shape
from onnx_passes.graph.traits import operators
from onnx_passes.ops.number_systems.constants import (
    cancels,
    combined,
    folded,
    grows_when_folded,
    is_product_safe,
    is_unnoticed_at_the_limit,
    rounded,
    wide,
)
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When
from onnx_passes.rewrite.refusal import Answer, Rewritten, no, yes

_GROWING = "the constants would grow by broadcasting"


def _keeps_sum_finite(a: np.ndarray, b: np.ndarray | None) -> Answer:
    parts = [a] if b is None else [a, b, combined("Add", a, b)]
    if not all(np.isfinite(wide(part)).all() for part in parts):
        return no("a constant, or the sum of both, is not finite")
    return no("the constants cancel") if b is not None and cancels(a, b) else yes


def _keeps_sum_in_range(a: np.ndarray, b: np.ndarray | None) -> Answer:
    parts = [a] if b is None else [a, b, combined("Add", a, b)]
    if not all(is_unnoticed_at_the_limit(part) for part in parts):
        return no("a constant is so large that a sum may leave the range")
    return _keeps_sum_finite(a, b)


def _keeps_product_finite(a: np.ndarray, b: np.ndarray | None) -> Answer:
    other = np.ones((), a.dtype) if b is None else b
    return yes if is_product_safe(a, other) else no("a product overflows or loses digits")


def _keeps_product_in_range(a: np.ndarray, b: np.ndarray | None) -> Answer:
    if b is None:
        return no("the product of the other operands may overflow")
    grows_first = (np.abs(wide(a)) > 1) & (np.abs(wide(b)) < 1)
    return no("an intermediate product may overflow") if grows_first.any() else _keeps_product_finite(a, b)


def _is_divided_alike(c: ir.Value, d: ir.Value) -> Answer:
    first, second = held(c), held(d)
    if (first <= 0).any() or (second <= 0).any():
        return no("a divisor is not positive", at=d)
    exact = first.astype(object) * second.astype(object)
    if any(number > np.iinfo(first.dtype).max for number in np.asarray(exact).reshape(-1)):
        return no("the product of the divisors does not fit", at=d)
    return yes


def _is_smaller_product(a: ir.Value, b: ir.Value) -> Answer:
    first, second = constant_tensor(a), constant_tensor(b)
    assert first is not None
    assert second is not None
    if len(first.shape) != 2 or len(second.shape) != 2:
        return no("the constants are not matrices", at=b)
    if grows(a) or grows(b):
        return no("a matrix is used elsewhere, too", at=b)
    (rows, _), (_, columns) = first.shape.numpy(), second.shape.numpy()
    if rows * columns > first.size + second.size:
        return no("the product has more elements than both matrices", at=b)
    return yes


def _multiplied_once(op: Builder, x: ir.Value, a: ir.Value, b: ir.Value) -> Rewritten:
    assert a.dtype is not None
    with np.errstate(all="ignore"):
        product = rounded(wide(held(a)) @ wide(held(b)), a.dtype)
    if product is None:
        return no("the product of the matrices is not finite", at=b)
    return op.MatMul(x, product)


def _can_group(node: ir.Node, inner: ir.Value, c: ir.Value, y: ir.Value) -> Answer:
    """Refuse constants that would grow and a non-constant operand that may widen the result."""
    if not is_constant(y):
        return yes if keeps_shape(inner, node.outputs[0], y) else no("the other operand may widen the result", at=y)
    if grows(c) or grows(y):
        return no("a large constant is used elsewhere, too", at=y)
    return no(_GROWING, at=y) if grows_when_folded(node.op_type, c, y) else yes


def _grouped(op: Builder, node: ir.Node, x: ir.Value, c: ir.Value, y: ir.Value) -> Rewritten:
    if not is_constant(y):
        return op.op(node.op_type, op.op(node.op_type, x, y), c)
    return op.op(node.op_type, x, folded(node.op_type, c, y))


_law = Vocabulary(
    _can_group,
    _grouped,
    _is_divided_alike,
    _is_smaller_product,
    _keeps_product_finite,
    _keeps_product_in_range,
    _keeps_sum_finite,
    _keeps_sum_in_range,
    _multiplied_once,
    constant,
).law


def _grouping(f: str, applies: str, guard: str = "") -> Law:
    """Build the law that folds two constants, or moves one past another operand."""
    return _law(
        f"{f}(inner := {f}(x, c), y) → grouped(result, x, c, y)",
        When(f"{applies}(c)", "another pass handles this type"),
        When("is_constant(c) and not is_constant(x)", "not one operand of the inner operator is constant"),
        When("can_group(result, inner, c, y)"),
        *([When(f"{guard}(held(c), constant(y))")] if guard else []),
    )


@passes.verify.equality
@passes.register("algebraic")
class GroupConstants(LawPass):
    """Reassociate integer and boolean operators so that their constants meet and fold.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` and ``(x ∘ c) ∘ y`` → ``(x ∘ y) ∘ c`` for ``Add``, ``Mul``, ``And``,
              ``Or``, ``Xor``, ``BitwiseAnd``, ``BitwiseOr``, ``BitwiseXor``; ``(x / c) / d`` → ``x / (c * d)``.
    Refuses:  floats; constants that a caller may override, or that would grow by broadcasting; large constants with
              other consumers; ``y`` that may widen ``x ∘ c``; divisors that are not positive or whose product does not
              fit; an inner result with other consumers.
    Exactness: bit-exact; integers wrap around.
    """

    fuzz_hints = hints(dtypes=["int32", "int64", "int8", "uint8", "bool"])
    laws = (
        *(_grouping(f, "is_discrete") for f in operators("elementwise", arity=2, associative=True)),
        _law(
            "x / c / d → x / folded('Mul', c, d)",
            When("is_constant(d) and is_constant(c) and not is_constant(x)", "the divisors are not constant"),
            When("is_whole(c)", "division of floats rounds each time"),
            When("is_divided_alike(c, d)"),
            When("not grows_when_folded('Mul', c, d)", _GROWING),
        ),
    )


@passes.verify.tolerance
@passes.register("algebraic")
class GroupConstantsRounding(LawPass):
    """Reassociate float sums and products so that constants fold, where only rounding changes.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` for ``Add`` and ``Mul``; ``(x + c) + y`` → ``(x + y) + c``.
    Refuses:  shapes and uses that ``group-constants`` refuses; constants that are not finite; products that
              overflow, lose digits or grow before they shrink (``x * 4 * 0.5`` may overflow in between); summands
              large enough to overflow; summands that cancel, as in the rounding ``(x + 12582912) - 12582912``.
    Exactness: rounding.
    """

    fast_math = ("reassoc",)
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])
    laws = (
        _grouping("Add", "is_float", "keeps_sum_in_range"),
        _grouping("Mul", "is_float", "keeps_product_in_range"),
    )


@passes.verify.tolerance
@passes.register("fast-math")
class GroupConstantsFast(LawPass):
    """Reassociate float sums and products so that their constants meet and fold.

    Rewrites: ``(x ∘ c) ∘ d`` → ``x ∘ (c ∘ d)`` and ``(x ∘ c) ∘ y`` → ``(x ∘ y) ∘ c`` for ``Add`` and ``Mul``.
    Refuses:  shapes and uses that ``group-constants`` refuses; constants that are not finite, or whose sum or
              product is not; products that lose digits; summands that cancel.
    Exactness: rounding; intermediate overflow may appear or disappear.
    """

    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])
    laws = (_grouping("Add", "is_float", "keeps_sum_finite"), _grouping("Mul", "is_float", "keeps_product_finite"))


@passes.verify.tolerance
@passes.register("fast-math")
class GroupMatmul(LawPass):
    """Fold two consecutive matrix products with constants into one.

    Rewrites: ``(x @ a) @ b`` → ``x @ (a @ b)`` of floats.
    Refuses:  constants that are not matrices or not finite, whose product is not finite, or that a caller may override;
              large constants with other consumers; a product with more elements than both factors together, which would
              cost more.
    Exactness: rounding; intermediate overflow may appear or disappear.
    """

    needs = ()
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(
        *(
            f"""g ({kind}[{rows}3] x) => ({kind}[{rows}2] z) <{kind}[3,4] a = {{1,0,-2,3,4,0,0.5,1,2,2,-1,7}},
                {kind}[4,2] b = {{1,2,-3,0.25,5,0,7,8}}> {{y = MatMul (x, a) z = MatMul (y, b)}}"""
            for kind in ("float", "double")
            for rows in ("", "2,", "N,", "0,", "4,1,")
        ),
        dtypes=["float32", "float64"],
    )
    laws = (
        _law(
            "x @ a @ b → multiplied_once(x, a, b)",
            When(
                "is_constant(b) and is_constant(a) and not is_constant(x) and is_float(a)",
                "the matrices are not constant, or not of floats",
            ),
            When("is_smaller_product(a, b)"),
        ),
    )
