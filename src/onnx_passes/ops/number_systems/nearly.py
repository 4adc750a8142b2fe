"""Equality up to the rounding of constants: how far two real functions can be apart whose constants differ a little.

Terms are expanded to polynomials with rational coefficients over what is not polynomial; two of them differ by at most
the sum of the differences of their coefficients, each times the largest value of its monomial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.bounds import Bound, NoBoundError
from onnx_passes.ops.number_systems.terms import CONSTANT, Terms

Polynomial = dict[tuple[int, ...], Fraction]

_MOST = 4096
"""Monomials beyond which nobody waits for a comparison."""
_ROOTS = 2.0**-50
_CLOSE = 32
"""How many units in the last place a coefficient may be off that was merged from a few constants."""
_LIPSCHITZ = {"Sigmoid": 0.25, "Tanh": 1.0, "Erf": 1.1284, "Relu": 1.0, "Abs": 1.0, "Sin": 1.0, "Cos": 1.0}


class Expansion:
    """Polynomials of terms, over those that are not sums and products."""

    def __init__(self, terms: Terms, sizes: Mapping[int, Bound], unit: float) -> None:
        self._terms = terms
        self._sizes = sizes
        self._unit = unit
        self._made: dict[int, Polynomial] = {}

    def deviation(self, a: int, b: int) -> float:
        """Bound the difference of two real functions.

        Raises NoBoundError if a coefficient differs by more than merging constants can round it. The constant term is
        compared in proportion to all terms: larger numbers may have cancelled in it.
        """
        p, q = self.of(a), self.of(b)
        twins, error = self._twins(p, q)
        renamed: Polynomial = {}
        extra = 0.0
        for monomial, coefficient in q.items():
            changed = tuple(sorted(twins.get(factor, factor) for factor in monomial))
            renamed[changed] = renamed.get(changed, Fraction(0)) + coefficient
            for factor in monomial:
                if factor in twins:
                    rest = list(monomial)
                    rest.remove(factor)
                    extra += abs(float(coefficient)) * error[factor] * math.prod(self._size(f) for f in rest)
        total = extra
        sizes = {monomial: math.prod(map(self._size, monomial)) for monomial in p.keys() | renamed.keys()}
        reach = sum(float(abs(number)) * sizes[monomial] for part in (p, renamed) for monomial, number in part.items())
        for monomial in sizes:
            mine, theirs = p.get(monomial, Fraction(0)), renamed.get(monomial, Fraction(0))
            size = float(max(abs(mine), abs(theirs))) if monomial else reach
            if float(abs(mine - theirs)) > _CLOSE * self._unit * size:
                raise NoBoundError("coefficients differ by more than rounding")
            # Roots in coefficients are rounded to doubles.
            difference = float(abs(mine - theirs)) + _ROOTS * float(abs(mine) + abs(theirs))
            total += difference * sizes[monomial]
        return total * (1 + 2.0**-30)

    def _size(self, term: int) -> float:
        found = self._sizes.get(term)
        if found is None:
            raise NoBoundError("a factor without a bound")
        return found.size

    def _twins(self, p: Polynomial, q: Polynomial) -> tuple[dict[int, int], dict[int, float]]:
        """Pair functions that only one side has, of operands that are nearly the same."""
        mine = {factor for monomial in p for factor in monomial}
        theirs = {factor for monomial in q for factor in monomial}
        twins: dict[int, int] = {}
        error: dict[int, float] = {}
        for factor in sorted(theirs - mine):
            symbol = self._terms.symbols[factor]
            slope = _LIPSCHITZ.get(symbol.name)
            for other in sorted(mine - theirs - set(twins.values())):
                if slope is None or self._terms.symbols[other] != symbol:
                    continue
                twins[factor] = other
                error[factor] = slope * self.deviation(self._terms.args[factor][0], self._terms.args[other][0])
                break
        return twins, error

    def of(self, root: int) -> Polynomial:
        """Expand a term."""
        for term in self._terms.below(root):
            if term not in self._made:
                self._made[term] = self._expanded(term)
                if len(self._made[term]) > _MOST:
                    raise NoBoundError("too many monomials")
        return self._made[root]

    def _expanded(self, term: int) -> Polynomial:
        terms, symbol = self._terms, self._terms.symbols[term]
        args = [self._made[arg] for arg in terms.args[term]]
        if symbol.name == CONSTANT:
            number = float(terms.constants[term]) if term in terms.constants else math.nan
            return {(term,): Fraction(1)} if not math.isfinite(number) else _constant(Fraction(number))
        if not symbol.dtype.is_floating_point():
            return {(term,): Fraction(1)}
        if symbol.name in ("Add", "ReduceSum", "Dot"):
            return _sum(args)
        if symbol.name == "ReduceMean":
            return _scaled(_sum(args), Fraction(1, len(args)))
        if symbol.name == "Neg":
            return _scaled(args[0], Fraction(-1))
        if symbol.name in ("Mul", "Product"):
            return _times(*args)
        if symbol.name == "Cast" and symbol.sources[0].is_floating_point():
            return args[0]
        return _of_parameters(symbol, args) or {(term,): Fraction(1)}


def _of_parameters(symbol: Symbol, args: list[Polynomial]) -> Polynomial | None:
    """Expand what is polynomial only where some operands are constant."""
    if symbol.name == "Gemm":
        alpha, beta, biased = symbol.params
        return _sum(
            [*(_scaled(b, Fraction(beta)) for b in args[:biased]), _scaled(_sum(args[biased:]), Fraction(alpha))]
        )
    if symbol.name in ("Div", "Reciprocal"):
        divisor = args[-1]
        if set(divisor) == {()}:
            return _scaled(args[0] if symbol.name == "Div" else _constant(Fraction(1)), 1 / divisor[()])
    if symbol.name == "BatchNormalization" and set(args[4]) <= {()}:
        x, scale, bias, mean, variance = args
        root = math.sqrt(float(variance.get((), Fraction(0))) + symbol.params[0])
        if root:
            centred = _sum([x, _scaled(mean, Fraction(-1))])
            return _sum([_scaled(_times(centred, scale), 1 / Fraction(root)), bias])
    return None


def _constant(number: Fraction) -> Polynomial:
    return {(): number} if number else {}


def _sum(parts: list[Polynomial]) -> Polynomial:
    total: Polynomial = {}
    for part in parts:
        for monomial, coefficient in part.items():
            total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _scaled(part: Polynomial, factor: Fraction) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in part.items() if factor}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) * len(b) > _MOST:
        raise NoBoundError("too many monomials")
    total: Polynomial = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial = tuple(sorted(m + n))
            total[monomial] = total.get(monomial, Fraction(0)) + c * d
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}
