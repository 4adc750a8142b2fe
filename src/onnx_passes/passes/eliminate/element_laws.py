"""Laws of neutral, absorbing and opposite elements: what a constant, or an operand itself, decides."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import holds_only
from onnx_passes.graph.idioms import scales_normalized
from onnx_passes.graph.shapes import is_integral, keeps_shape, static_shape
from onnx_passes.graph.traits import TRAITS, Number, traits_of
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.laws import LawPass, Vocabulary, When

_EXACT_IN_DOUBLE = 32
_SAME: dict[str, Number] = {
    **{name: traits_of(traits_of(name).undoes).identity or 0 for name in ("Sub", "Xor", "BitwiseXor")},
    "Less": False,
    "Greater": False,
    "Equal": True,
    "LessOrEqual": True,
    "GreaterOrEqual": True,
}
"""What an operator makes of twice the same."""
_OPPOSITE: dict[tuple[str, str], Number] = {
    **{(name, "Not"): traits_of(name).annihilator or 0 for name in ("And", "Or")},
    **{(name, "BitwiseNot"): traits_of(name).annihilator or 0 for name in ("BitwiseAnd", "BitwiseOr")},
    ("Xor", "Not"): True,
    ("BitwiseXor", "BitwiseNot"): -1,
    ("Add", "Neg"): 0,
}
"""What an operator makes of something and its opposite."""
_ALSO_OF_FLOATS = ("Less", "Greater")


def is_neutral(op_type: str, value: ir.Value) -> bool:
    """Tell whether a constant is neutral even to the sign of a zero."""
    number = float(traits_of(op_type).identity or 0)
    signed = number == 0 and traits_of(op_type).commutative and not is_integral(value)
    return holds_only(value, -0.0 if signed else number)


def is_exact_in_double(value: ir.Value) -> bool:
    """Tell whether a value is of floats, or of integers that doubles can hold."""
    return not is_integral(value) or (value.dtype is not None and value.dtype.bitwidth <= _EXACT_IN_DOUBLE)


def filled_like(op: Builder, x: ir.Value, content: ir.Value | np.ndarray) -> ir.Value:
    """Build a value of the shape of another, or wider where the content is: it depends on the shape alone."""
    shape = static_shape(x)
    return op.Expand(content, op.Shape(x) if shape is None else np.array(shape, np.int64))


def spread(op: Builder, c: ir.Value, result: ir.Value, x: ir.Value) -> ir.Value:
    """Expand a constant to the shape of another operand, where that may be wider."""
    return c if keeps_shape(c, result, x) else filled_like(op, x, c)


def filled(op: Builder, x: ir.Value, number: Number) -> ir.Value:
    """Build numbers of the type and shape of a value, or truth values of its shape."""
    dtype = ir.DataType.BOOL if isinstance(number, bool) else x.dtype
    assert dtype is not None
    return filled_like(op, x, np.array(number).astype(dtype.numpy()))


_law = Vocabulary(filled, is_exact_in_double, is_neutral, scales_normalized, spread).law
_CONSTANT = When("is_constant(c)", "neither operand is constant")
_EXACT = When("is_integral(x)", "NaN and infinities would be lost")


@passes.verify.equality
@passes.register("eliminate")
class EliminateAnnihilator(LawPass):
    """Replace an operator by its constant operand where that alone decides the result.

    Rewrites: ``x * 0`` of integers, ``And(x, false)``, ``Or(x, true)``, ``BitwiseAnd(x, 0)``, ``BitwiseOr(x, -1)`` →
              the constant, expanded to the shape of ``x`` where that may be wider.
    Refuses:  ``x * 0`` of floats (NaN, infinities, signs of zeros); constants that a caller may override.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [0, -1, [0], [[255, 255]], [[0], [0]], True]})
    laws = tuple(
        _law(
            f"{f}(x, c) → spread(c, result, x)",
            _CONSTANT,
            When("is_integral(c)", "NaN, infinities and signs would be lost"),
            When(f"holds_only(c, {traits.annihilator})", "the constant does not decide the result"),
        )
        for f, traits in TRAITS.standard().items()
        if traits.annihilator is not None
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateComplement(LawPass):
    """Replace operators on equal, or opposite, operands by the constant that they compute.

    Rewrites: ``x - x``, ``Xor(x, x)``, ``BitwiseXor(x, x)``, ``x + -x``, ``And(x, Not(x))``,
              ``BitwiseAnd(x, BitwiseNot(x))`` → zeros of the shape of ``x``; ``Or(x, Not(x))``, ``x == x``, ``x <= x``
              → ``true``; ``BitwiseOr(x, BitwiseNot(x))`` → ``-1``; ``x < x`` → ``false``.
    Refuses:  floats, but for ``x < x`` and ``x > x``: infinities have no difference and NaN equals nothing.
    Exactness: bit-exact.
    """

    laws = (
        *(
            _law(
                f"{f}(x, x) → filled(x, {number})",
                *([] if f in _ALSO_OF_FLOATS else [_EXACT]),
                name=f"{f}OfSame",
                forks="duplicate",
            )
            for f, number in _SAME.items()
        ),
        *(
            _law(f"{f}(x, {g}(x)) → filled(x, {number})", _EXACT, name=f"{f}Of{g}", forks="duplicate")
            for (f, g), number in _OPPOSITE.items()
        ),
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdentity(LawPass):
    """Remove Identity nodes, also of sequences and optional values.

    Rewrites: ``Identity(x)`` → ``x``.
    Refuses:  to touch the interface: where a graph or a branch passes an input or an outer value on to an output,
              or has the same value as two outputs, one Identity stays for each name.
    Exactness: bit-exact.
    """

    needs = ()
    fuzz_hints = hints(
        *(
            f"g ({kind} x) => ({kind} y{other}) {{{body}}}"
            for kind in ("float[2,N]", "int8", "float16[0]", "string[2]", "bool[1,1]")
            for other, body in (
                ("", "a = Identity (x) y = Identity (a)"),
                ("", "y = Identity (x)"),
                ("", "a = Transpose (x) b = Identity (a) y = Transpose (b)"),
                (f", {kind} z", "a = Identity (x) y = Identity (a) z = Identity (a)"),
                (f", {kind} z", "a = Transpose (x) z = Transpose (a) y = Identity (z)"),
                (f", {kind} z", "a = Transpose (x) b = Transpose (a) z = Identity (b) y = Identity (z)"),
            )
        )
    )
    laws = (_law("Identity(x) → x"),)


@passes.verify.equality
@passes.register("eliminate")
class EliminateNeutralElement(LawPass):
    """Remove operators with a neutral constant operand.

    Rewrites: ``x + 0``, ``x - 0``, ``x * 1``, ``x / 1``, ``Pow(x, 1)``, ``And(x, true)``, ``Or(x, false)``,
              ``Xor(x, false)``, ``BitwiseAnd(x, -1)``, ``BitwiseOr(x, 0)``, ``BitwiseXor(x, 0)`` → ``x``.
    Refuses:  constants that a caller may override; constants whose shape may widen ``x``; with floats ``x + 0.0`` and
              ``x - -0.0``, which turn ``-0.0`` into ``0.0`` (``x + -0.0`` and ``x - 0.0`` go); 64-bit ``Pow``; the
              scale of a normalization that is written out, by which runtimes recognise it.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(constants={"c": [0.0, -0.0, 1, 1.0, [1.0], -1, [[0.0]], 255]})
    laws = tuple(
        _law(
            f"{f}(x, c) → x",
            _CONSTANT,
            When(f"is_neutral({f!r}, c)", "the constant is not the neutral element"),
            When("keeps_shape(x, result, c)", "the constant may widen the other operand"),
            *([When("is_exact_in_double(x)", "large integers are rounded on the way")] if f == "Pow" else []),
            *(
                [When("not scales_normalized(c, x)", "runtimes know a normalization by its scale")]
                if f == "Mul"
                else []
            ),
        )
        for f, traits in TRAITS.standard().items()
        if traits.identity is not None
    )
