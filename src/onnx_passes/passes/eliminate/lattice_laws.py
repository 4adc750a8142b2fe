"""Laws of lattices and selections: absorption, idempotence, involution and constant conditions."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes import passes
from onnx_passes.graph.traits import TRAITS, operators, traits_of
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When

_law = Vocabulary().law
_REPEATED = [name for name in operators("elementwise", arity=1, idempotent=True, exact=True) if name != "Identity"]
_LATTICE = [name for name in operators("elementwise", idempotent=True, exact=True) if traits_of(name).arity != 1]
_DUAL = {"And": "Or", "Or": "And", "BitwiseAnd": "BitwiseOr", "BitwiseOr": "BitwiseAnd", "Max": "Min", "Min": "Max"}
_ORDERED = When("is_integral(y)", "the sign of a zero depends on the order")


@passes.verify.equality
@passes.register("eliminate")
class EliminateAbsorption(LawPass):
    """Remove pairs of dual operators that return one of their operands.

    Rewrites: ``And(x, Or(x, y))`` → ``x`` in any order, likewise for ``Or`` and ``And``, ``BitwiseAnd`` and
              ``BitwiseOr``, ``Max`` and ``Min``.
    Refuses:  ``y`` that may widen ``x``; ``Max`` and ``Min`` of floats, where a NaN in ``y`` prevails.
    Exactness: bit-exact.
    """

    laws = tuple(
        _law(
            f"{f}(x, {g}(x, y)) → x",
            When("is_integral(x)", "a NaN would be lost"),
            When("keeps_shape(x, result, y)", "the result may be wider"),
            name=f"{f}Of{g}",
            forks="duplicate",
        )
        for f, g in _DUAL.items()
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdempotence(LawPass):
    """Remove repeated applications of idempotent operators.

    Rewrites: ``f(f(x))`` → ``f(x)`` for ``Abs``, ``Relu``, ``Sign``, ``Ceil``, ``Floor``, ``Round``;
              ``f(x, x)`` → ``x`` and ``f(f(x, y), y)`` → ``f(x, y)`` for ``And``, ``Or``, ``BitwiseAnd``,
              ``BitwiseOr``, ``Max``, ``Min``.
    Refuses:  ``Max(Max(x, y), y)`` of floats, where the sign of a zero depends on the order.
    Exactness: bit-exact.
    """

    laws = (
        *(_law(f"{f}(once := {f}(x)) → once", name=f"{f}Twice", forks="duplicate") for f in _REPEATED),
        *(_law(f"{f}(x, x) → x", name=f"{f}OfSame") for f in _LATTICE),
        *(
            _law(
                f"{f}(once := {f}(x, y), y) → once",
                *([_ORDERED] if f in ("Max", "Min") else []),
                name=f"{f}Again",
                forks="duplicate",
            )
            for f in _LATTICE
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateInvolution(LawPass):
    """Remove pairs of operators that are their own inverse.

    Rewrites: ``Neg(Neg(x))`` → ``x``, likewise for ``Not`` and ``BitwiseNot``.
    Refuses:  ``Reciprocal``, which rounds.
    Exactness: bit-exact.
    """

    needs = ()
    laws = tuple(
        _law(f"{f}({f}(x)) → x", name=f"{f}Twice", forks="duplicate")
        for f in operators("elementwise", arity=1, involution=True, exact=True)
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateNegatedComparison(LawPass):
    """Fold the negation of an integer comparison into the opposite comparison.

    Rewrites: ``Not(Less(x, y))`` → ``GreaterOrEqual(x, y)``, likewise for ``LessOrEqual``, ``Greater``,
              ``GreaterOrEqual``.
    Refuses:  floats, as every comparison with NaN is false; a comparison with other consumers.
    Exactness: bit-exact.
    """

    laws = tuple(
        _law(
            f"Not({f}(x, y)) → {traits.complement}(x, y)",
            When("is_integral(x)", "comparisons with NaN are false both ways"),
            name=f"NotOf{f}",
        )
        for f, traits in TRAITS.standard().items()
        if traits.complement
    )


_SIGNS = When("has_no_signs(x)", "the sign of a zero may change")


def _selections(*when: When) -> Sequence[Law]:
    """Build the laws of Where, with conditions on the laws that keep or move the first choice."""
    return (
        _law(
            "Where(c, x, y) → x",
            When("holds_only(c, True)", "the condition is not constant, or mixed"),
            When("keeps_shape(x, result, c, x, y)", "the choice may be widened"),
            *when,
            name="WhereTrue",
        ),
        _law(
            "Where(c, x, y) → y",
            When("holds_only(c, False)", "the condition is not constant, or mixed"),
            When("keeps_shape(y, result, c, x, y)", "the choice may be widened"),
            name="WhereFalse",
        ),
        _law(
            "Where(c, x, x) → x",
            When("keeps_shape(x, result, c)", "the condition may widen the choice"),
            *when,
            name="WhereSame",
        ),
        _law("Where(Not(c), x, y) → Where(c, y, x)", *when, name="WhereNot", forks="duplicate"),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateWhere(LawPass):
    """Remove Where nodes with a constant condition or equal choices, and negations of the condition.

    Rewrites: ``Where(false, x, y)`` → ``y``; of integers also ``Where(true, x, y)`` → ``x``, ``Where(c, x, x)`` →
              ``x`` and ``Where(Not(c), x, y)`` → ``Where(c, y, x)``.
    Refuses:  conditions that are computed, mixed or overridable; a choice that the condition or the other choice may
              widen; the first choice of floats, for which ONNX Runtime turns ``-0.0`` into ``0.0``
              (``eliminate-where-of-floats`` accepts that).
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [True, False, [True], [[False]], [True, True]]})
    laws = _selections(_SIGNS)


@passes.verify.tolerance
@passes.register("fast-math")
class EliminateWhereOfFloats(LawPass):
    """Remove Where nodes with a constant condition or equal choices, of any type.

    Rewrites: ``Where(true, x, y)`` → ``x``; ``Where(false, x, y)`` → ``y``; ``Where(c, x, x)`` → ``x``;
              ``Where(Not(c), x, y)`` → ``Where(c, y, x)``.
    Refuses:  conditions that are computed, mixed or overridable; a choice that the condition or the other choice may
              widen.
    Exactness:exact by the standard; ONNX Runtime turns ``-0.0`` into ``0.0`` where the first choice is selected, so
              that signs of zeros may differ from those of the original.
    """

    fast_math = ("nsz",)
    fuzz_hints = EliminateWhere.fuzz_hints
    laws = _selections()
