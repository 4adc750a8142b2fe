"""Numbers that may depend on dimensions of the data: polynomials in the names of dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

Monomial = tuple[str, ...]
Terms = tuple[tuple[Monomial, int], ...]


@dataclass(frozen=True)
class Extent:
    """A sum of products of named dimensions, in a normal form; equal ones are equal for all data."""

    terms: Terms

    @property
    def is_never_negative(self) -> bool:
        """Tell whether no size of the dimensions makes this negative."""
        return all(factor >= 0 for _, factor in self.terms)


Number = int | Extent
Element = Number | None
"""One element of a vector of which something is known; nothing is known of None."""


def add(a: Element, b: Element) -> Element:
    """Add two elements."""
    if a is None or b is None:
        return None
    terms = dict(_terms(a))
    for monomial, factor in _terms(b):
        terms[monomial] = terms.get(monomial, 0) + factor
    return _normal(terms)


def multiply(a: Element, b: Element) -> Element:
    """Multiply two elements; zero times anything is zero."""
    if 0 in (a, b):
        return 0
    if a is None or b is None:
        return None
    terms: dict[Monomial, int] = {}
    for p, m in _terms(a):
        for q, n in _terms(b):
            monomial = tuple(sorted(p + q))
            terms[monomial] = terms.get(monomial, 0) + m * n
    return _normal(terms)


def negate(a: Element) -> Element:
    """Change the sign of an element."""
    return multiply(a, -1)


def divide(a: Element, b: Element) -> Element:
    """Divide where the quotient is a whole number whatever the data; a division by zero fails in any case."""
    if a is None or b is None or b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    if a == b:
        return 1
    divisor = _terms(b)
    if len(divisor) != 1:
        return None
    monomial, factor = divisor[0]
    terms: dict[Monomial, int] = {}
    for over, numerator in _terms(a):
        left = _without(over, monomial)
        if left is None or numerator % factor:
            return None
        terms[left] = numerator // factor
    return _normal(terms)


def compare(a: Element, b: Element) -> int | None:
    """Return the sign of the difference, where it is the same for all data."""
    difference = add(a, negate(b))
    if isinstance(difference, int):
        return (difference > 0) - (difference < 0)
    if difference is None:
        return None
    constant = dict(difference.terms).get((), 0)
    factors = [factor for monomial, factor in difference.terms if monomial]
    if constant > 0 and all(factor > 0 for factor in factors):
        return 1
    if constant < 0 and all(factor < 0 for factor in factors):
        return -1
    return None


class Dimensions:
    """Reads the dimensions of values; each name is taken apart once."""

    def __init__(self) -> None:
        self._known: dict[str, Element] = {}

    def of(self, dim: int | ir.SymbolicDim) -> Element:
        """Return a dimension as an element; dimensions without a name are unknown."""
        if isinstance(dim, int):
            return dim if dim >= 0 else None
        name = dim.value
        if name is None:
            return None
        if name not in self._known:
            self._known[name] = Extent((((name,), 1),)) if name.isidentifier() else _parsed(dim, name)
        return self._known[name]


def _parsed(dim: ir.SymbolicDim, name: str) -> Element:
    """Take arithmetic on names apart; whatever else is a name by itself."""
    whole = Extent((((name,), 1),))
    try:
        expression: Any = dim._expr  # pyright: ignore[reportPrivateUsage]
        return _polynomial(expression)
    except (ValueError, TypeError, ArithmeticError, AttributeError, SyntaxError):
        return whole


def _polynomial(expression: Any) -> Number:
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return Extent(((((str(expression.name)),), 1),))
    if expression.is_Add or expression.is_Mul:
        combine, result = (add, 0) if expression.is_Add else (multiply, 1)
        for argument in expression.args:
            result = combine(result, _polynomial(argument))
        return _not_none(result)
    if expression.is_Pow and expression.exp.is_Integer and 0 < int(expression.exp) <= 8:
        base, result = _polynomial(expression.base), 1
        for _ in range(int(expression.exp)):
            result = multiply(result, base)
        return _not_none(result)
    raise ValueError("no polynomial")


def _not_none(element: Element) -> Number:
    if element is None:
        raise ValueError("no polynomial")
    return element


def _terms(number: Number) -> Terms:
    return number.terms if isinstance(number, Extent) else (((), number),)


def _normal(terms: dict[Monomial, int]) -> Number:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not any(kept):
        return kept.get((), 0)
    return Extent(tuple(sorted(kept.items())))


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    left = list(monomial)
    for name in part:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)
