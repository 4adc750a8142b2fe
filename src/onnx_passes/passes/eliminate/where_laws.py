"""Laws of selections that are decided."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes import passes
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import Law, LawPass, Vocabulary, When

_law = Vocabulary().law
_SIGNS = When("has_no_signs(x)", "the sign of a zero would come back")


def _laws(*when: When) -> Sequence[Law]:
    """Write the laws that take or move the first choice, with conditions on it."""
    return (
        _law(
            "Where(c, x, y) → x",
            When("holds_only(c, True)", "the condition is not constant, or mixed"),
            When("keeps_shape(x, result, c, x, y)", "what is chosen may be widened"),
            *when,
            name="WhereTrue",
        ),
        _law(
            "Where(c, x, y) → y",
            When("holds_only(c, False)", "the condition is not constant, or mixed"),
            When("keeps_shape(y, result, c, x, y)", "what is chosen may be widened"),
            name="WhereFalse",
        ),
        _law(
            "Where(c, x, x) → x",
            When("keeps_shape(x, result, c)", "the condition may widen what is chosen"),
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
    Refuses:  conditions that are computed, mixed or may be overridden; what is selected, if the condition or the
              other choice may widen it; the first choice of floats, of which ONNX Runtime makes ``0.0`` of ``-0.0``
              (``eliminate-where-of-floats`` does not mind).
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [True, False, [True], [[False]], [True, True]]})
    laws = _laws(_SIGNS)


@passes.verify.tolerance
@passes.register("fast-math")
class EliminateWhereOfFloats(LawPass):
    """Remove Where nodes with a constant condition or equal choices, of any type.

    Rewrites: ``Where(true, x, y)`` → ``x``; ``Where(false, x, y)`` → ``y``; ``Where(c, x, x)`` → ``x``;
              ``Where(Not(c), x, y)`` → ``Where(c, y, x)``.
    Refuses:  conditions that are computed, mixed or may be overridden; what is selected, if the condition or the
              other choice may widen it.
    Exactness: exact by the standard; ONNX Runtime makes ``0.0`` of ``-0.0`` where the first choice is selected, so
              that signs of zeros may differ from those of the model before.
    """

    fast_math = ("nsz",)
    fuzz_hints = EliminateWhere.fuzz_hints
    laws = _laws()
