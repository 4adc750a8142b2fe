"""The algebra of real numbers, by evaluation at random points of finite fields.

A real number is represented by what it is at random points modulo a few primes P, and modulo the primes Q that divide
P − 1. Floats are dyadic rationals, so that constants are represented exactly; sums, products and quotients are those
of the fields. ``Exp`` takes a number modulo Q to a power modulo P, so that it turns sums into products; ``Sqrt`` is a
root where there is one, and points without count only if nothing is made of roots; other functions are random functions
of the field. Two expressions that agree at all points are equal as real functions, but for a chance of about
(degree / P) to the power of the number of points that count.

What jumps where its operand moves by the last bit (comparisons, rounding, casts to integers) is a random function of
how the operand is computed, bit by bit: real numbers say nothing about it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import ELEMENT, Symbol
from onnx_passes.numbers.arithmetic import Arithmetic, UnknownOperatorError
from onnx_passes.numbers.reals import Reals
from onnx_passes.numbers.surds import Number, Surd
from onnx_passes.ops.number_systems.fingerprints import Fingerprints, mix
from onnx_passes.ops.number_systems.real_functions import REAL_FUNCTIONS, REAL_SEQUENCES, RealAlgebra, RealFunction

_HALVES = (1073735879, 1073720759, 1073686319, 1073682959)
"""Primes Q for which P = 2 Q + 1 is prime as well, so that squares modulo P form a group of the prime order Q.

They leave 7 when divided by 8, so that half of the squares modulo either are squares of squares, and have a root among
them; 2, 3, 5 and 7 are squares modulo all of them.
"""
POINTS = len(_HALVES)
Array = np.ndarray[Any, Any]
HALVES = np.array(_HALVES, np.uint64)
WHOLES = HALVES * np.uint64(2) + np.uint64(1)
PRIMES = np.concatenate([WHOLES, HALVES])
"""For each number of an element what it counts modulo: points modulo P, then the same points modulo Q."""
_ELEMENT = np.dtype([("at", np.uint64, (2 * POINTS,)), ("label", np.uint64), ("rootless", bool, (2 * POINTS,))])
_GENERATOR = np.uint64(4)
_HALF = Fraction(1, 2)


class Residues:
    """Numbers modulo primes, at points, that are added and multiplied."""

    __slots__ = ("at", "field")

    def __init__(self, field: Field, at: Array) -> None:
        self.field = field
        self.at = at

    def _made(self, at: Array) -> Residues:
        return Residues(self.field, at)

    def __add__(self, other: Residues) -> Residues:
        return self._made((self.at + other.at) % PRIMES)

    def __sub__(self, other: Residues) -> Residues:
        return self._made((self.at + PRIMES - other.at) % PRIMES)

    def __neg__(self) -> Residues:
        return self._made((PRIMES - self.at) % PRIMES)

    def __mul__(self, other: Residues) -> Residues:
        return self._made(times(self.at, other.at))

    def __truediv__(self, other: Residues) -> Residues:
        return self._made(times(self.at, inverse(other.at)))

    def __abs__(self) -> Residues:
        """Return a random even function of numbers, as which the absolute value is taken."""
        return self._made(oracle("Abs", [self.at]))


class _Residual(Arithmetic[Residues]):
    """Computes modulo primes; functions that are not rational are exponentials, roots, or random functions."""

    def __init__(self, field: Field) -> None:
        self._field = field

    def of(self, numbers: Reals) -> Residues:
        """Refuse: constants are elements with a fingerprint."""
        raise UnknownOperatorError("constants are elements of the field")

    def number(self, number: Number) -> Residues:
        """Return a number; roots of rational numbers are roots."""
        if isinstance(number, Surd):
            parts = [self.number(each) * self.root(self.number(Fraction(n))) for n, each in number.terms.items()]
            return functools.reduce(lambda a, b: a + b, parts)
        exact = Fraction(number)
        above, below = (np.array([each % int(p) for p in PRIMES], np.uint64) for each in exact.as_integer_ratio())
        return Residues(self._field, times(above, inverse(below)))

    def greater(self, a: Residues, b: Residues) -> Residues:
        """Return ``(a + b + |a − b|) / 2``."""
        return (a + b + abs(a - b)) * self.number(_HALF)

    def lesser(self, a: Residues, b: Residues) -> Residues:
        """Return ``(a + b − |a − b|) / 2``."""
        return (a + b - abs(a - b)) * self.number(_HALF)

    def growing(self, name: str, x: Residues) -> Residues:
        """Return exponentials, rational functions of them, or random functions."""
        one = self.number(Fraction(1))
        match name:
            case "exp":
                return Residues(self._field, _exponential(self._field, x.at))
            case "sigmoid":
                return one / (one + self.growing("exp", -x))
            case "tanh":
                return one - (one + one) / (one + self.growing("exp", x + x))
            case "softplus":
                return self.smooth("Log", one + self.growing("exp", x))
            case "sinh":
                return (self.growing("exp", x) - self.growing("exp", -x)) * self.number(_HALF)
            case _:
                return self.smooth(name.capitalize(), x)

    def rounded(self, mode: str, x: Residues) -> Residues:
        """Refuse: where a number is rounded is not known."""
        raise UnknownOperatorError("rounding jumps")

    def reached(self, x: Residues, thresholds: Residues, weights: Residues) -> Residues:
        """Refuse: numbers are not ordered."""
        raise UnknownOperatorError("comparisons jump")

    def root(self, x: Residues) -> Residues:
        """Return the root of a square that is a square itself; other points get random numbers, and count less."""
        raised = power(x.at, (PRIMES + np.uint64(1)) // np.uint64(4))
        square = times(raised, raised) == x.at
        self._field.rootless.append(~square)
        return Residues(self._field, np.where(square, raised, oracle("Sqrt", [x.at])))

    def smooth(self, name: str, x: Residues) -> Residues:
        """Return a random function of numbers."""
        return Residues(self._field, oracle(name, [x.at]))

    def unknown(self, symbol: Symbol, operands: Sequence[Residues]) -> Residues:
        """Return a random function of numbers."""
        return Residues(self._field, oracle(symbol, [operand.at for operand in operands]))

    def equals(self, x: Residues, number: Fraction) -> bool:
        """Return whether numbers are all the same one."""
        wanted = self.number(number).at
        return bool(np.array_equal(x.at, np.broadcast_to(wanted, x.at.shape)))

    def assume(self, text: str) -> None:
        """Note what a result rests on."""
        self._field.assumed.add(text)

    def length(self, rows: Residues) -> int:
        """Return the length of sequences."""
        return int(rows.at.shape[-2])

    def at(self, rows: Residues, place: int) -> Residues:
        """Return the elements at one place of sequences."""
        return Residues(self._field, rows.at[..., place, :])

    def total(self, rows: Residues) -> Residues:
        """Add up sequences."""
        return Residues(self._field, rows.at.sum(-2, dtype=np.uint64) % PRIMES)

    def extreme(self, rows: Residues, *, greatest: bool) -> Residues:
        """Combine the numbers of a sequence in an order that does not depend on where they are."""
        order = np.argsort(rows.at[..., 0], axis=-1)
        ordered = Residues(self._field, np.take_along_axis(rows.at, order[..., None], -2))
        return super().extreme(ordered, greatest=greatest)


class Field(RealAlgebra):
    """Elements are numbers modulo primes at random points, with a fingerprint of how they are computed."""

    decides = False
    most = 1 << 21

    def __init__(self, seed: int = 0) -> None:
        super().__init__(_Residual(self))
        self.labels = Fingerprints(seed)
        self.assumed: set[str] = set()
        self.rootless: list[Array] = []
        self.raises = False

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> Array:
        """Return random points."""
        return self._by_label(self.labels.variable(name, dtype, shape))

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> Array:
        """Return rational numbers as they are; infinities and NaN are numbers like no others."""
        self.afford(array.size)
        label = self.labels.constant(dtype, array)
        if array.dtype == object:
            return self._by_label(label)
        if array.dtype.kind in "biu":
            numbers = array.astype(np.int64)[..., None] % PRIMES.astype(np.int64)
            if array.dtype == np.uint64:
                numbers = array[..., None] % PRIMES
            return self._made(numbers.astype(np.uint64), label)
        wide = array.astype(np.float64)
        finite = np.isfinite(wide)
        fraction, exponent = np.frexp(np.where(finite, wide, 0))
        whole = (fraction * 2.0**53).astype(np.int64)[..., None] % PRIMES.astype(np.int64)
        at = times(whole.astype(np.uint64), _power_of_two(exponent - 53))
        return self._made(np.where(finite[..., None], at, self._by_label(label)["at"]), label)

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> Array:
        """Compute in the fields what real numbers obey; what jumps is random."""
        operands = np.broadcast_arrays(*operands)
        label = self.labels.scalar(symbol, [operand["label"] for operand in operands])
        return self._computed(REAL_FUNCTIONS, symbol, operands, label, [operand["rootless"] for operand in operands])

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> Array:
        """Compute sums and products of sequences."""
        label = self.labels.sequence(symbol, [operand["label"] for operand in operands])
        rootless: list[Array] = [np.logical_or.reduce(operand["rootless"], axis=-2) for operand in operands]
        if symbol.name not in REAL_SEQUENCES:
            return self._by_label(label)
        return self._computed(REAL_SEQUENCES, symbol, operands, label, rootless)

    def _computed(
        self,
        table: Mapping[str, RealFunction],
        symbol: Symbol,
        operands: Sequence[np.ndarray],
        label: Array,
        rootless: Sequence[Array],
    ) -> Array:
        numbers = [Residues(self, operand["at"]) for operand in operands]
        try:
            function = table.get(symbol.name)
            if function is None:
                raise UnknownOperatorError(symbol.name)
            found = function(self.arithmetic, symbol, numbers).at
        except UnknownOperatorError:
            self.rootless.clear()
            self.raises = False
            if symbol.name == ELEMENT or _jumps(symbol):
                return self._by_label(label)
            found = oracle(symbol, [each.at for each in numbers])
        return self._made(np.broadcast_to(found, (*label.shape, 2 * POINTS)), label, rootless)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> Array:
        """Return random numbers for a function of whole arrays, computed as they are bit by bit."""
        return self._by_label(self.labels.opaque(symbol, [operand["label"] for operand in operands], shape))

    def _by_label(self, label: Array) -> Array:
        with np.errstate(over="ignore"):
            spread = np.arange(1, 2 * POINTS + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            return self._made(mix(label[..., None] ^ spread) % PRIMES, label)

    def _made(self, at: Array, label: Array, rootless: Sequence[Array] = ()) -> Array:
        found = np.empty(label.shape, _ELEMENT)
        found["at"], found["label"], found["rootless"] = at, label, False
        for mask in (*rootless, *self.rootless):
            found["rootless"] |= mask if mask.ndim <= found["rootless"].ndim else np.logical_or.reduce(mask, axis=-2)
        if self.raises:
            # An exponent counts modulo Q, and what it makes modulo P.
            found["rootless"][..., :POINTS] |= found["rootless"][..., POINTS:]
        self.rootless.clear()
        self.raises = False
        return found


def compared(a: Array, b: Array) -> tuple[Array, Array]:
    """Tell which elements are the same real numbers at all points that count, and which are not; others are open."""
    equal = a["at"][..., :POINTS] == b["at"][..., :POINTS]
    counts = ~(a["rootless"] | b["rootless"])[..., :POINTS]
    agree = (equal | ~counts).all(-1)
    return equal.all(-1) | agree & counts.any(-1), ~agree


def _jumps(symbol: Symbol) -> bool:
    """Tell whether a result says nothing to real numbers: it is an integer or truth value, or is rounded."""
    return not symbol.dtype.is_floating_point() or traits_of(symbol.name).decides


def times(a: Array, b: Array) -> Array:
    """Multiply."""
    return a * b % PRIMES


def power(a: Array, exponent: Array | int) -> Array:
    """Raise to a whole power."""
    result = np.ones(np.broadcast_shapes(a.shape, np.shape(exponent)), np.uint64)
    base, left = np.broadcast_to(a, result.shape), np.broadcast_to(np.asarray(exponent, np.uint64), result.shape)
    while left.any():
        result = np.where(left & np.uint64(1), times(result, base), result)
        base, left = times(base, base), left >> np.uint64(1)
    return result


def inverse(a: Array) -> Array:
    """Divide one by numbers that are not zero."""
    return power(a, PRIMES - np.uint64(2))


def _power_of_two(exponent: Array) -> Array:
    exponent = np.asarray(exponent, np.int64)[..., None]
    two = np.full(len(PRIMES), 2, np.uint64)
    negative = exponent < 0
    raised = power(np.broadcast_to(two, (*exponent.shape[:-1], len(PRIMES))), np.abs(exponent).astype(np.uint64))
    return np.where(negative, inverse(raised), raised)


def oracle(symbol: Symbol | str, operands: Sequence[Array]) -> Array:
    """Return a random function of numbers modulo P, at each point; odd and even ones are so."""
    name = symbol if isinstance(symbol, str) else symbol.name
    # A function without attributes is the same whether an operator applies it or a rule does.
    text = name if isinstance(symbol, str) or not symbol.params else f"{symbol.name}:{symbol.params}"
    parity = traits_of(name).parity if len(operands) == 1 else 0
    firsts = [operand[..., :POINTS] for operand in operands]
    turned = np.zeros((), bool)
    if parity:
        turned = firsts[0] > HALVES
        firsts = [np.where(turned, (WHOLES - firsts[0]) % WHOLES, firsts[0])]
    start = np.array(Fingerprints(7).of_text(text), np.uint64)
    with np.errstate(over="ignore"):
        for first in firsts:
            start = mix(start * np.uint64(0xBF58476D1CE4E5B9) + first)
        both = np.concatenate([start, mix(start ^ np.uint64(0x5851F42D4C957F2D))], -1) % PRIMES
    if parity < 0:
        both = np.where(np.concatenate([turned, turned], -1), (PRIMES - both) % PRIMES, both)
    if parity < 0 or name == "Abs":
        both = np.where(np.concatenate([firsts[0] == 0] * 2, -1), np.uint64(0), both)
    return both


def _exponential(field: Field, x: Array) -> Array:
    """Turn sums modulo Q into products modulo P; modulo Q the result is random."""
    field.raises = True
    raised = power(np.full((*x.shape[:-1], 2 * POINTS), _GENERATOR), np.concatenate([x[..., POINTS:]] * 2, -1))
    random = oracle("Exp", [x])
    return np.concatenate([raised[..., :POINTS], random[..., POINTS:]], -1)
