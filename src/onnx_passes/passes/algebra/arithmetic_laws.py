"""Laws of arithmetic: normal forms of sums, products and powers, and distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.constants import constant, held, holds_only
from onnx_passes.graph.shapes import is_float, is_whole
from onnx_passes.graph.traits import TRAITS, operators
from onnx_passes.ops.number_systems.constants import (
    is_product_safe,
    is_unnoticed_at_the_limit,
    limits_of,
    wide,
)
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When

_DISTRIBUTIONS = tuple(
    (outer, inner)
    for inner, traits in TRAITS.standard().items()
    if traits.commutative and traits.arity == 2
    for outer in traits.distributes_over
)


def reciprocal(value: ir.Value) -> np.ndarray:
    """Return the reciprocal of a constant, rounded once."""
    array = held(value)
    with np.errstate(all="ignore"):
        return np.asarray(1.0 / wide(array)).astype(array.dtype)


def has_normal_reciprocal(value: ir.Value) -> bool:
    """Return whether all elements of a constant, and their reciprocals, are normal numbers."""
    numbers = np.abs(np.stack([wide(held(value)), wide(reciprocal(value))]))
    return bool((np.isfinite(numbers) & (numbers >= float(limits_of(held(value)).smallest_normal))).all())


def is_power_of_two(value: ir.Value) -> bool:
    """Return whether all elements of a constant are powers of two or negated powers of two."""
    return bool((np.abs(np.frexp(wide(held(value)))[0]) == 0.5).all())


def is_signed(value: ir.Value) -> bool:
    """Return whether the elements of ``value`` can be negated: floats or signed integers."""
    return is_float(value) or (is_whole(value) and value.dtype is not None and value.dtype.is_signed())


def is_one_number(value: ir.Value, number: float) -> bool:
    """Return whether ``value`` is a constant with a single element equal to ``number``."""
    array = constant(value)
    return array is not None and array.size == 1 and holds_only(value, number)


def is_summed_alike(value: ir.Value) -> bool:
    """Return whether runtimes accumulate sums of this element type in the same type."""
    return value.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE)


_law = Vocabulary(
    has_normal_reciprocal,
    is_one_number,
    is_power_of_two,
    is_product_safe,
    is_signed,
    is_summed_alike,
    is_unnoticed_at_the_limit,
    reciprocal,
).law
_OTHER_TYPE = "another pass handles this type"
_FACTOR = When("is_own_constant(c) and not is_constant(x)", "the factor is not a constant of its own")
_NARROW = When("keeps_shape(x, result, c)", "the constant may widen the other operand")


@passes.verify.equality
@passes.register("algebraic")
class AbsorbNeg(LawPass):
    """Absorb negations into sums, differences, products and even functions.

    Rewrites: ``x + Neg(y)`` → ``x - y``; ``x - Neg(y)`` → ``x + y``; ``Neg(x) * Neg(y)`` → ``x * y``;
              ``Neg(x) * c`` → ``x * (-c)``; ``Neg(x * c)`` → ``x * (-c)``; ``Neg(x - y)`` → ``y - x`` of integers;
              ``Abs(Neg(x))`` → ``Abs(x)``.
    Refuses:  ``Neg(x - y)`` of floats, where a zero would change its sign; constants that a caller may override, large
              ones with other consumers; ``Neg(x * c)`` if the product has other consumers.
    Exactness: bit-exact.
    """

    needs = ()
    laws = (
        _law("x + -y → x - y", name="AddNeg", forks="duplicate"),
        _law("x - -y → x + y", name="SubNeg", forks="duplicate"),
        _law("-x * -y → x * y", name="MulNegNeg", forks="duplicate"),
        _law("-x * c → x * negated(held(c))", _FACTOR, name="MulNeg", forks="duplicate"),
        _law("-(x * c) → x * negated(held(c))", _FACTOR, name="NegMul"),
        _law("-(x - y) → y - x", When("is_whole(x)", "a zero of floats would change its sign"), name="NegSub"),
        *(
            _law(f"{f}(-x) → {f}(x)", name=f"{f}Neg", forks="duplicate")
            for f in operators("elementwise", arity=1, parity=1, exact=True)
        ),
    )


def _divisions(*when: When) -> Sequence[Law]:
    return (
        _law(
            "x / c → x * reciprocal(c)",
            When("is_float(c)", "integers are divided with a remainder"),
            When("is_own_constant(c) and not is_constant(x)", "the divisor is not a constant of its own"),
            When("has_normal_reciprocal(c)", "the divisor or its reciprocal is not a normal number"),
            *when,
        ),
    )


@passes.verify.equality
@passes.register("algebraic")
class ConvertDiv(LawPass):
    """Canonicalize division by a power of two to multiplication by its reciprocal.

    Rewrites: ``x / c`` → ``x * (1 / c)`` of floats.
    Refuses:  integers; constants that a caller may override; large constants with other consumers; any element that is
              not a power of two, or whose reciprocal is not a normal number.
    Exactness: bit-exact: both are the same real number, rounded once.
    """

    needs = ()
    fuzz_hints = hints(constants={"c": [2.0, -0.5, [4.0], [0.25], 1.0, 3.0]})
    laws = _divisions(When("is_power_of_two(c)", "the divisor is not a power of two"))


@passes.verify.tolerance
@passes.register("algebraic")
class ConvertDivRounding(LawPass):
    """Canonicalize division by a constant to multiplication by its rounded reciprocal.

    Rewrites: ``x / c`` → ``x * (1 / c)`` of floats.
    Refuses:  integers; constants that a caller may override; large constants with other consumers; any element that is
              zero or not finite, or whose reciprocal is not a normal number.
    Exactness: rounding.
    """

    needs = ()
    fast_math = ("reassoc",)
    fuzz_hints = hints(constants={"c": [3.0, -0.7, [1e3], [0.1], 7.0]})
    laws = _divisions()


@passes.verify.equality
@passes.register("algebraic")
class ConvertNeg(LawPass):
    """Canonicalize multiplication with, or division by, minus one to Neg.

    ``Neg`` is the normal form: it needs no constant and never widens its operand. ``absorb-neg`` and the elimination
    of double negations simplify it further, and a product with another constant absorbs it.

    Rewrites: ``x * -1`` → ``Neg(x)``; ``x / -1`` → ``Neg(x)`` of floats.
    Refuses:  unsigned integers, which cannot be negated; ``x / -1`` of integers, which may fail; constants that a
              caller may override, or that may widen ``x``.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [-1, [-1], [[-1]], 1]})
    laws = tuple(
        _law(
            f"{before} → -x",
            When(fits, "the type cannot be negated, or not without failing"),
            When("holds_only(c, -1.0) and not is_constant(x)", "the constant is not minus one"),
            _NARROW,
        )
        for before, fits in (("x * c", "is_signed(c)"), ("x / c", "is_float(c)"))
    )


@passes.verify.equality
@passes.register("algebraic")
class ConvertPow(LawPass):
    """Canonicalize squares to products.

    Rewrites: ``Pow(x, 2)`` → ``x * x``.
    Refuses:  integers, whose powers a runtime may compute as floats; other exponents; exponents of several elements,
              for which a power may be rounded differently; exponents that a caller may override, or whose shape may
              widen ``x``.
    Exactness: bit-exact: a runtime computes a square as this product.
    """

    fuzz_hints = hints(constants={"c": [2, [2], [[2]], 3]})
    laws = (
        _law(
            "Pow(x, c) → x * x",
            When("is_constant(c) and not is_constant(x)", "the exponent is not the only constant"),
            When("is_float(x)", "powers of integers may be computed as floats"),
            When("is_one_number(c, 2.0)", "the exponent is not the single number two"),
            When("keeps_shape(x, result, c)", "the exponent may widen the base"),
        ),
    )


@passes.verify.equality
@passes.register("algebraic")
class ConvertSub(LawPass):
    """Canonicalize subtraction of a constant to addition of its negative.

    Rewrites: ``x - c`` → ``x + (-c)``.
    Refuses:  constants that a caller may override; large constants with other consumers.
    Exactness: bit-exact; IEEE defines it so, and integers wrap around, also unsigned ones.
    """

    needs = ()
    laws = (
        _law(
            "x - c → x + negated(held(c))",
            When("is_own_constant(c) and not is_constant(x)", "the subtrahend is not a constant of its own"),
            When("is_float(c) or is_whole(c)", "the type cannot be negated"),
        ),
    )


@passes.verify.equality
@passes.register("algebraic")
class ConvertSum(LawPass):
    """Canonicalize ``Sum`` and ``Mean`` of two operands to binary operators.

    Rewrites: ``Sum(x, y)`` → ``x + y``; ``Mean(x, y)`` → ``(x + y) * 0.5``.
    Refuses:  other numbers of operands; ``Mean`` of other types than float and double, which may be summed in a wider
              type.
    Exactness: bit-exact.
    """

    needs = ()
    laws = (
        _law("Sum(x, y) → x + y"),
        _law("Mean(x, y) → (x + y) * 0.5", When("is_summed_alike(x)", "the type may be summed in a wider one")),
    )


def _distribution(applies: str, *when: When) -> Sequence[Law]:
    return (
        _law(
            "(inner := x + c) * d → x * d + folded('Mul', c, d)",
            When(f"{applies}(c)", _OTHER_TYPE),
            When("is_constant(c) and is_constant(d) and not is_constant(x)", "summand and factor are not constant"),
            When("not grows(c)", "a large constant is used elsewhere, too"),
            When("keeps_shape(inner, result, d)", "the factor may widen the sum"),
            When("not grows_when_folded('Mul', c, d)", "the constants would grow by broadcasting"),
            *when,
            name="MulOfAdd",
        ),
    )


@passes.verify.equality
@passes.register("algebraic")
class DistributeMul(LawPass):
    """Distribute a constant factor over an integer sum with a constant, so that shifts come after scales.

    Rewrites: ``(x + c) * d`` → ``x * d + c * d``.
    Refuses:  floats; constants that a caller may override; ``d`` that may widen the sum; ``c * d`` that would be larger
              than ``c`` and ``d``; a sum with other consumers.
    Exactness: bit-exact; integers wrap around.
    """

    fuzz_hints = hints(dtypes=["int32", "int64", "int8", "uint8"])
    laws = _distribution("is_whole")


@passes.verify.tolerance
@passes.register("algebraic")
class DistributeMulRounding(LawPass):
    """Distribute a constant factor over a float sum with a constant, where only rounding changes.

    Rewrites: ``(x + c) * d`` → ``x * d + c * d``.
    Refuses:  shapes and uses that ``distribute-mul`` refuses; constants that are not finite, whose product
              overflows or loses digits, or so large that the sum may leave the range.
    Exactness: rounding.
    """

    fast_math = ("reassoc",)
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])
    laws = _distribution(
        "is_float",
        When("is_product_safe(held(c), held(d))", "the product of the constants overflows or loses digits"),
        When("is_unnoticed_at_the_limit(held(c))", "the constant is so large that a sum may leave the range"),
    )


def _factorizations(applies: str, pairs: Sequence[tuple[str, str]]) -> Sequence[Law]:
    return tuple(
        _law(f"{f}({g}(x, z), {g}(y, z)) → {g}({f}(x, y), z)", When(f"{applies}(z)", _OTHER_TYPE), name=f"{f}Of{g}s")
        for f, g in pairs
    )


@passes.verify.equality
@passes.register("factorize")
class FactorizeCommon(LawPass):
    """Factor out a common operand of integers or booleans.

    Rewrites: ``x * z + y * z`` → ``(x + y) * z``, and likewise for each operator that distributes over another: ``Mul``
              over ``Add`` and ``Sub``, ``And`` over ``Or`` and ``Xor``, ``Or`` over ``And``, and the bitwise operators.
    Refuses:  floats; ``Div``, which rounds; inner results with other consumers.
    Exactness: bit-exact; integers wrap around.
    """

    needs = ()
    fuzz_hints = hints(dtypes=["int32", "int64", "int8", "uint8", "bool"])
    laws = _factorizations("is_discrete", _DISTRIBUTIONS)


@passes.verify.tolerance
@passes.register("fast-math")
class FactorizeCommonFast(LawPass):
    """Factor out a common operand of floats.

    Rewrites: ``x * z + y * z`` → ``(x + y) * z``, also with ``Sub``.
    Refuses:  inner results with other consumers.
    Exactness: rounding; intermediate overflow may appear or disappear.
    """

    needs = ()
    fast_math = ("nnan", "ninf", "nsz", "reassoc")
    fuzz_hints = hints(dtypes=["float32", "float64", "float16"])
    laws = _factorizations("is_float", [pair for pair in _DISTRIBUTIONS if pair[1] == "Mul"])
