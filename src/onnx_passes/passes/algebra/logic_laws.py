"""Laws of comparisons, selections and negations of booleans and bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.constants import held, holds_only
from onnx_passes.graph.traits import TRAITS
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When

_UNDONE = {
    name: traits.undoes
    for name, traits in TRAITS.standard().items()
    if traits.arity == 2 and traits.undoes in ("Add", "Sub", "Xor", "BitwiseXor")
}
_LOGICS = (("And", "Or", "Xor", "Not"), ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
"""The operators of both Boolean algebras: conjunction, disjunction, exclusive disjunction, negation."""


def flipped(value: ir.Value) -> np.ndarray:
    """Return the elementwise negation of a boolean constant, or the bitwise complement of an integer one."""
    return np.invert(held(value))


def flips_everything(value: ir.Value) -> bool:
    """Return whether all elements of a constant are true, or have all bits set."""
    if value.dtype is None or not value.dtype.is_integer():
        return holds_only(value, 1)
    return holds_only(value, -1 if value.dtype.is_signed() else (1 << value.dtype.bitwidth) - 1)


_law = Vocabulary(flipped, flips_everything).law
_NO_ROUNDING = When("is_discrete(x)", "floats round")
_SIGNS = When("has_no_signs(x)", "the sign of a zero may change")
_NARROW = When("vanishes_into(z, c, x, y)", "the unused choice may widen the result")


def _flips(both: str, either: str, differ: str, negate: str) -> Sequence[Law]:
    """Build De Morgan's laws and the laws of exclusive disjunction for one Boolean algebra."""
    duals = ((both, either), (either, both))
    return (
        *(_law(f"{f}({negate}(x), {negate}(y)) → {negate}({g}(x, y))", name=f"{f}OfNots") for f, g in duals),
        *(_law(f"{negate}({f}({negate}(x), y)) → {g}(x, {negate}(y))", name=f"{negate}Of{f}OfNot") for f, g in duals),
        _law(
            f"{differ}({negate}(x), c) → {differ}(x, flipped(c))",
            When("is_own_constant(c)", "the other operand is not a constant of its own"),
            name=f"{differ}OfNotWithConstant",
        ),
        _law(f"{differ}({negate}(x), y) → {negate}({differ}(x, y))", name=f"{differ}OfNot"),
        _law(
            f"{differ}(x, ones) → {negate}(x)",
            When("is_constant(ones) and not is_constant(x)", "not one operand is constant"),
            When("flips_everything(ones)", "the constant does not flip everything"),
            When("keeps_shape(x, result, ones)", "the constant may widen the other operand"),
            name=f"{differ}WithOnes",
        ),
    )


@passes.verify.equality
@passes.register("algebraic")
class AbsorbNot(LawPass):
    """Absorb negations of truth values and bits, and merge two into one, by De Morgan's laws.

    Move a negation inwards if it is absorbed there, and outwards if two merge: the node count never grows.

    Rewrites: ``And(Not(x), Not(y))`` → ``Not(Or(x, y))``; ``Not(And(Not(x), y))`` → ``Or(x, Not(y))``; both also with
              ``Or``; ``Xor(Not(x), y)`` → ``Not(Xor(x, y))``, or ``Xor(x, not c)`` with a constant; ``Xor(x, true)`` →
              ``Not(x)``; all also of ``BitwiseAnd``, ``BitwiseOr``, ``BitwiseXor``, ``BitwiseNot``.
    Refuses:  inner values with other consumers; constants that a caller may override, or whose shape may widen ``x``.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"ones": [1, [1], -1, [-1], 255]})
    laws = tuple(law for logic in _LOGICS for law in _flips(*logic))


@passes.verify.equality
@passes.register("algebraic")
class CancelInEquality(LawPass):
    """Cancel common terms of integer equations, and fold their constants to one side.

    Rewrites: ``x + c == d`` → ``x == d - c``, also for ``Sub``, ``Xor``, ``BitwiseXor``; ``x + z == y + z`` →
              ``x == y``, likewise for these operators.
    Refuses:  floats, which round; orderings, which wrapping around breaks (``x + 1 < y + 1`` of the highest ``x``);
              constants that a caller may override or that would grow; ``z`` that may widen the remaining operands.
    Exactness: bit-exact; integers wrap around.
    """

    fuzz_hints = hints(dtypes=["int32", "int64", "int8", "uint8", "bool"])
    laws = (
        *(
            _law(
                f"Equal({f}(x, c), d) → Equal(x, folded({inverse!r}, d, c))",
                _NO_ROUNDING,
                When(
                    "is_constant(c) and is_own_constant(d) and not is_constant(x)",
                    "not one operand and the other side are constant",
                ),
                When(f"not grows_when_folded({inverse!r}, d, c)", "the constants would grow by broadcasting"),
                name=f"{f}Constant",
            )
            for f, inverse in _UNDONE.items()
        ),
        *(
            _law(
                f"Equal({f}(x, z), {f}(y, z)) → Equal(x, y)",
                _NO_ROUNDING,
                When("vanishes_into(z, x, y)", "the common operand may widen the other ones"),
                name=f,
            )
            for f in _UNDONE
        ),
    )


def _selections(*when: When) -> Sequence[Law]:
    return (
        _law("Where(c, Where(c, x, z), y) → Where(c, x, y)", *when, _NARROW, name="WhereInFirst", forks="duplicate"),
        _law("Where(c, x, Where(c, z, y)) → Where(c, x, y)", *when, _NARROW, name="WhereInSecond", forks="duplicate"),
    )


@passes.verify.equality
@passes.register("algebraic")
class MergeWhere(LawPass):
    """Merge two nested Where nodes with the same condition, of anything but floats.

    Rewrites: ``Where(c, Where(c, x, z), y)`` → ``Where(c, x, y)``; ``Where(c, x, Where(c, z, y))`` →
              ``Where(c, x, y)``.
    Refuses:  ``z`` that may widen the result; floats, as ONNX Runtime turns ``-0.0`` into ``0.0`` in some broadcast
              loops (``merge-where-fast`` accepts that).
    Exactness: bit-exact.
    """

    fuzz_hints = hints(dtypes=["int32", "int64", "uint8"])
    laws = _selections(_SIGNS)


@passes.verify.tolerance
@passes.register("fast-math")
class MergeWhereFast(LawPass):
    """Merge two nested Where nodes with the same condition, of any type.

    Rewrites: nested Where as in ``merge-where``, also of floats.
    Refuses:  ``z`` that may widen the result.
    Exactness: exact by the standard; ONNX Runtime may change the sign of a zero.
    """

    fast_math = ("nsz",)
    laws = _selections()


@passes.verify.equality
@passes.register("algebraic")
class OrderComparison(LawPass):
    """Canonicalize comparisons: the constant is the right operand.

    Rewrites: ``c < x`` → ``x > c``, likewise ``LessOrEqual``, ``Greater``, ``GreaterOrEqual`` and ``Equal``.
    Refuses:  comparisons without a constant, or of constants; constants that a caller may override.
    Exactness: bit-exact.
    """

    needs = ()
    laws = tuple(
        _law(
            f"{f}(c, x) → {traits.converse}(x, c)",
            When("is_constant(c) and not is_constant(x)", "the left operand is not the only constant"),
            commute=False,
        )
        for f, traits in TRAITS.standard().items()
        if traits.converse
    )
