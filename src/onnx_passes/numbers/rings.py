"""Integers as a ring modulo 2ʷ: sums and products of terms as polynomials, of which equal ones are one term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx_ir as ir

if TYPE_CHECKING:
    from onnx_passes.numbers.terms import Terms


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


ELEMENT = "element"
"""Picks an element of what a function makes of a sequence."""


class TooLargeError(Exception):
    """A model has more elements than the algebra is made for."""


class UnsupportedError(Exception):
    """The meaning of a node is not known well enough: sizes that depend on data, types that are no tensors."""


class Symbol(NamedTuple):
    """A function of scalars or of a sequence of them: its name, its type, those of its operands, and attributes."""

    name: str
    dtype: ir.DataType
    sources: tuple[ir.DataType, ...] = ()
    params: tuple[Any, ...] = ()


class Algebra(ABC):
    """What elements are and how they are combined.

    ``exact`` algebras tell results apart that differ in a single bit; the others compute in real numbers.
    """

    exact: bool = True
    decides: bool = False
    """Whether elements are compared and rounded as real numbers, so that quantizers need not be expanded."""
    most: int = 1 << 22
    """Elements that one tensor, or the sequences of one node, may have."""

    def afford(self, *sizes: int) -> None:
        """Raise TooLargeError if something has more elements than the algebra is made for."""
        amount = 1
        for size in sizes:
            amount *= size
        if amount > self.most:
            raise TooLargeError(f"{amount} elements, more than {self.most}")

    @abstractmethod
    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Return elements of which nothing is known but where they are."""

    @abstractmethod
    def constant(self, dtype: ir.DataType, array: np.ndarray) -> np.ndarray:
        """Return the elements of a constant."""

    @abstractmethod
    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a scalar function to operands that broadcast."""

    @abstractmethod
    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a function of the sequences along the last axis of operands of one shape: a sum, a scalar product."""

    def vector(self, symbol: Symbol, operands: Sequence[np.ndarray], length: int) -> np.ndarray:
        """Apply a function of sequences that makes another sequence of them, along the last axis."""
        whole = self.sequence(symbol, operands)
        places = self.constant(ir.DataType.INT64, np.arange(length, dtype=np.int64))
        return self.scalar(Symbol(ELEMENT, symbol.dtype, (symbol.dtype, ir.DataType.INT64)), [whole[..., None], places])

    @abstractmethod
    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Return what a function that nothing is known of makes of whole arrays."""


@dataclass(slots=True)
class Tensor:
    """A tensor in an algebra; ``known`` are its numbers where it is constant, and elements are made on demand."""

    dtype: ir.DataType
    known: np.ndarray | None = None
    made: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes."""
        array = self.made if self.known is None else self.known
        assert array is not None
        return array.shape

    def elements(self, algebra: Algebra) -> np.ndarray:
        """Return the elements."""
        if self.made is None:
            assert self.known is not None
            self.made = algebra.constant(self.dtype, self.known)
        return self.made
