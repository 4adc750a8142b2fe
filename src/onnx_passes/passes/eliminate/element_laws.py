"""Laws of neutral, absorbing and complementary operands."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant, holds_only
from onnx_passes.graph.shapes import is_integral, keeps_shape, rank, static_shape
from onnx_passes.graph.traits import TRAITS, Number, traits_of
from onnx_passes.graph.uses import made_by
from onnx_passes.ops.facts.signs import has_positive_zeros, is_never_negative
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
"""Results of operators applied to equal operands."""
_OPPOSITE: dict[tuple[str, str], Number] = {
    **{(name, "Not"): traits_of(name).annihilator or 0 for name in ("And", "Or")},
    **{(name, "BitwiseNot"): traits_of(name).annihilator or 0 for name in ("BitwiseAnd", "BitwiseOr")},
    ("Xor", "Not"): True,
    ("BitwiseXor", "BitwiseNot"): -1,
    ("Add", "Neg"): 0,
}
"""Results of operators applied to a value and its complement."""
_ALSO_OF_FLOATS = ("Less", "Greater")
_BLIND = ("Abs", "Cos", "Exp", "LogSoftmax", "Softmax")
"""Operators that do not distinguish zeros of different signs."""


def _is_normalized(value: ir.Value) -> bool:
    """Return whether a value is a quotient by a square root, as in the definition of a normalization."""
    node = made_by(value, "Mul")
    if node is None:
        return _is_divided_by_root(value)
    return any(_is_divided_by_root(operand) for operand in node.inputs)


def _is_divided_by_root(value: ir.Value | None) -> bool:
    node = made_by(value, "Div", "Reciprocal")
    return node is not None and made_by(node.inputs[-1], "Sqrt") is not None


def scales_normalized(factor: ir.Value, value: ir.Value) -> bool:
    """Return whether a factor is the scale of a decomposed normalization: a vector, even one of ones."""
    return bool(rank(factor)) and _is_normalized(value)


def is_neutral(op_type: str, value: ir.Value) -> bool:
    """Return whether a constant is the neutral element, with regard to signs of zeros."""
    number = float(traits_of(op_type).identity or 0)
    signed = number == 0 and traits_of(op_type).commutative and not is_integral(value)
    return holds_only(value, -0.0 if signed else number)


def is_neutral_to(x: ir.Value, op_type: str, value: ir.Value) -> bool:
    """Return whether a constant is neutral to ``x``: any zero is, if ``x`` holds no negative zero."""
    return is_neutral(op_type, value) or (adds_zero(op_type, value) and has_positive_zeros(x))


def adds_zero(op_type: str, value: ir.Value) -> bool:
    """Return whether a constant only turns negative zeros into positive ones."""
    zero = {"Add": 0.0, "Sum": 0.0, "Sub": -0.0}.get(op_type)
    return zero is not None and holds_only(value, zero)


def applied_to(op: Builder, node: ir.Node, x: ir.Value) -> ir.Value:
    """Build the node with another first input."""
    return op.like(node, [x, *node.inputs[1:]])


def is_exact_in_double(value: ir.Value) -> bool:
    """Return whether a value holds floats, or integers that doubles represent exactly."""
    return not is_integral(value) or (value.dtype is not None and value.dtype.bitwidth <= _EXACT_IN_DOUBLE)


def filled_like(op: Builder, x: ir.Value, content: ir.Value | np.ndarray) -> ir.Value:
    """Expand ``content`` to the shape of ``x``, of which only the shape is read."""
    shape = static_shape(x)
    return op.Expand(content, op.Shape(x) if shape is None else np.array(shape, np.int64))


def spread(op: Builder, c: ir.Value, result: ir.Value, x: ir.Value) -> ir.Value:
    """Expand a constant to the broadcast shape with ``x``."""
    return c if keeps_shape(c, result, x) else filled_like(op, x, c)


def filled(op: Builder, x: ir.Value, number: Number) -> ir.Value:
    """Build a value with the shape of ``x`` filled with a number of its type, or with a boolean."""
    dtype = ir.DataType.BOOL if isinstance(number, bool) else x.dtype
    assert dtype is not None
    return filled_like(op, x, np.array(number).astype(dtype.numpy()))


def is_at_most_zero(value: ir.Value) -> bool:
    """Return whether all elements of an integer constant are at most zero."""
    array = constant(value)
    return array is not None and array.dtype.kind == "i" and bool((array <= 0).all())


_law = Vocabulary(
    adds_zero,
    applied_to,
    filled,
    has_positive_zeros,
    is_at_most_zero,
    is_exact_in_double,
    is_never_negative,
    is_neutral_to,
    scales_normalized,
    spread,
).law
_CONSTANT = When("is_constant(c)", "neither operand is constant")
_EXACT = When("is_integral(x)", "NaN and infinities would be lost")


@passes.verify.equality
@passes.register("eliminate")
class EliminateAnnihilator(LawPass):
    """Replace an operator by its constant operand if that determines the result.

    Rewrites: ``x * 0`` of integers, ``And(x, false)``, ``Or(x, true)``, ``BitwiseAnd(x, 0)``, ``BitwiseOr(x, -1)`` →
              the constant, expanded to the shape of ``x`` if necessary.
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
    """Replace operators on equal or complementary operands by the constant result.

    Rewrites: ``x - x``, ``Xor(x, x)``, ``BitwiseXor(x, x)``, ``x + -x``, ``And(x, Not(x))``,
              ``BitwiseAnd(x, BitwiseNot(x))`` → zeros of the shape of ``x``; ``Or(x, Not(x))``, ``x == x``, ``x <= x``
              → ``true``; ``BitwiseOr(x, BitwiseNot(x))`` → ``-1``; ``x < x`` → ``false``.
    Refuses:  floats, except ``x < x`` and ``x > x``: infinities have no difference and NaN equals nothing.
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
class EliminateComparison(LawPass):
    """Decide comparisons with zero of integers that are never negative.

    Rewrites: ``Range(0, n, 1) >= 0``, ``0 <= Shape(x)`` → ``true`` of the shape of the result; ``Shape(x) < 0``,
              ``0 > NonZero(x)`` → ``false``; also through Unsqueeze, Reshape, Gather, Concat and similar operators.
    Refuses:  constants above zero, or that a caller may override, or that widen the other operand; operands that are
              not known to be counts, sizes or indices; floats.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (int64 n, float[N,2] x) => (bool[A] y) <int64[A] r, int64[2] s, int64 o = {{0}}, int64 d = {{1}},
                int64 c = {{{c}}}> {{ {body} }}"""
            for c in (0, -3)
            for body in (
                "r = Range (o, n, d) y = GreaterOrEqual (r, c)",
                "r = Range (o, n, d) y = Less (r, c)",
                "s = Shape (x) y = GreaterOrEqual (s, c)",
                "s = Shape (x) y = Less (s, c)",
                "s = Shape (x) y = LessOrEqual (c, s)",
                "s = Shape (x) y = Greater (c, s)",
            )
        )
    )
    laws = tuple(
        _law(
            f"{before} → filled(x, {number})",
            When("is_at_most_zero(c)", "it is not compared with a constant of at most zero"),
            When("is_never_negative(x)", "the operand may be negative"),
            When("keeps_shape(x, result, c)", "the constant may widen the other operand"),
            commute=False,
            forks="duplicate",
        )
        for before, number in (
            ("GreaterOrEqual(x, c)", True),
            ("LessOrEqual(c, x)", True),
            ("Less(x, c)", False),
            ("Greater(c, x)", False),
        )
    )


@passes.verify.equality
@passes.register("eliminate")
class EliminateIdentity(LawPass):
    """Remove Identity nodes, also of sequences and optional values.

    Rewrites: ``Identity(x)`` → ``x``.
    Refuses:  to change the interface: where a graph or branch returns an input or an outer value, or returns one value
              twice, one Identity per output name stays.
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
    Refuses:  constants that a caller may override, or whose shape may widen ``x``; for floats, ``x + 0.0`` and ``x -
              -0.0``, which turn ``-0.0`` into ``0.0``, unless ``x`` never holds ``-0.0`` (after Abs, Exp, or a sum with
              a non-zero bias), or all consumers are Softmax, Exp, Abs, Cos, or a sum with an operand that never holds
              it; 64-bit ``Pow``; the scale of a decomposed normalization, by which runtimes recognise it.
    Exactness: bit-exact.
    """

    fuzz_hints = hints(
        *(
            f"""g (float[2,3] x) => (float[2,3] y) <float[1] c = {{0.0}}, float[3] b = {{0.5, -1, 2}},
                float[3,3] w = {{1, -1, 2, 0.5, 3, 0, 0, 1, 2}}> {{ {body} }}"""
            for body in (
                "a = Abs (x) y = Add (c, a)",
                "a = Gemm (x, w, b) d = Relu (a) e = Transpose (d) f = Transpose (e) y = Add (f, c)",
                "a = Add (x, b) d = Neg (c) y = Sub (a, d)",
                "a = Add (x, c) y = Softmax (a)",
                "a = Add (c, x) y = Exp (a)",
                "a = Add (x, c) y = Add (b, a)",
            )
        ),
        constants={"c": [0.0, -0.0, 1, 1.0, [1.0], -1, [[0.0]], 255]},
    )
    laws = (
        *(
            _law(
                f"{f}(x, c) → x",
                _CONSTANT,
                When(f"is_neutral_to(x, {f!r}, c)", "the constant is not the neutral element"),
                When("keeps_shape(x, result, c)", "the constant may widen the other operand"),
                *([When("is_exact_in_double(x)", "large integers are rounded to double")] if f == "Pow" else []),
                *(
                    [When("not scales_normalized(c, x)", "runtimes recognise a normalization by its scale")]
                    if f == "Mul"
                    else []
                ),
            )
            for f, traits in TRAITS.standard().items()
            if traits.identity is not None
        ),
        *(
            _law(
                f"{f}(s := x + c) → applied_to(result, x)",
                When("is_constant(c) and adds_zero('Add', c)", "the constant is not zero"),
                When("keeps_shape(x, s, c)", "the constant may widen the other operand"),
                name=f"{f}OfSum",
            )
            for f in _BLIND
        ),
        _law(
            "(s := x + c) + y → x + y",
            When("is_constant(c) and adds_zero('Add', c)", "the constant is not zero"),
            When("has_positive_zeros(y)", "the other summand may be a negative zero, too"),
            When("keeps_shape(x, s, c)", "the constant may widen the other operand"),
            name="AddOfSum",
        ),
    )
