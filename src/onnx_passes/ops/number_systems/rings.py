"""Integers as a ring modulo 2ʷ: sums and products of terms as polynomials, of which equal ones are one term."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol

if TYPE_CHECKING:
    from onnx_passes.ops.number_systems.terms import Terms


POLYNOMIAL = "polynomial"
"""A term whose parameters are monomials: a coefficient, and the places of its factors among the operands."""
_MOST_PRODUCTS = 256
Polynomial = dict[tuple[int, ...], int]


def is_ring(dtype: ir.DataType) -> bool:
    """Tell whether numbers of a type wrap around."""
    return dtype.is_integer()


def add_up(terms: Terms, dtype: ir.DataType, summands: Sequence[int]) -> int:
    """Return the sum of terms."""
    total: Polynomial = {}
    for summand in summands:
        for monomial, coefficient in _polynomial(terms, dtype, summand).items():
            total[monomial] = total.get(monomial, 0) + coefficient
    return _term(terms, dtype, total)


def negated(terms: Terms, dtype: ir.DataType, term: int) -> int:
    """Return ``−x``."""
    return scaled(terms, dtype, term, -1)


def scaled(terms: Terms, dtype: ir.DataType, term: int, factor: int) -> int:
    """Return a multiple of a term."""
    return _term(terms, dtype, {m: c * factor for m, c in _polynomial(terms, dtype, term).items()})


def multiplied(terms: Terms, dtype: ir.DataType, a: int, b: int) -> int:
    """Return the product of two terms; large ones are not multiplied out."""
    p, q = _polynomial(terms, dtype, a), _polynomial(terms, dtype, b)
    if len(p) * len(q) > _MOST_PRODUCTS:
        return terms.intern(Symbol("Mul", dtype, (dtype, dtype)), (min(a, b), max(a, b)))
    total: Polynomial = {}
    for m, c in p.items():
        for n, d in q.items():
            monomial = tuple(sorted(m + n))
            total[monomial] = total.get(monomial, 0) + c * d
    return _term(terms, dtype, total)


def ring_constant(terms: Terms, dtype: ir.DataType, number: int) -> int:
    """Return a number, wrapped around."""
    width = dtype.bitwidth
    number %= 1 << width
    if dtype.is_signed() and number >= 1 << (width - 1):
        number -= 1 << width
    return terms.number(dtype, number)


def _polynomial(terms: Terms, dtype: ir.DataType, term: int) -> Polynomial:
    found = terms.polynomials.get(term)
    if found is None:
        constant = terms.constants.get(term)
        if constant is None:
            return {(term,): 1}
        number = int(constant)
        return {(): number} if number else {}
    return found


def _term(terms: Terms, dtype: ir.DataType, polynomial: Polynomial) -> int:
    modulus = 1 << dtype.bitwidth
    reduced = {monomial: c % modulus for monomial, c in sorted(polynomial.items()) if c % modulus}
    if not reduced:
        return ring_constant(terms, dtype, 0)
    if len(reduced) == 1:
        ((monomial, coefficient),) = reduced.items()
        if not monomial:
            return ring_constant(terms, dtype, coefficient)
        if len(monomial) == 1 and coefficient == 1:
            return monomial[0]
    factors = sorted({factor for monomial in reduced for factor in monomial})
    place = {factor: index for index, factor in enumerate(factors)}
    params = tuple((c, tuple(place[factor] for factor in monomial)) for monomial, c in reduced.items())
    term = terms.intern(Symbol(POLYNOMIAL, dtype, (dtype,) * len(factors), params), tuple(factors))
    terms.polynomials[term] = reduced
    return term
