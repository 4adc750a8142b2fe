"""Numbers of elements, operations and bytes: plain integers, or polynomials where dimensions are dynamic."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

import onnx_ir as ir

NOMINAL = 64
"""What a dynamic dimension counts where amounts have to be compared."""


class UnknownSizeError(Exception):
    """A size is not known, not even as a formula; the text says of what."""


class Polynomial:
    """A sum of products of named dimensions, with whole numbers as coefficients."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[tuple[str, ...], int]) -> None:
        self.terms = {names: factor for names, factor in terms.items() if factor}

    def __add__(self, other: Amount) -> Polynomial:
        terms = dict(self.terms)
        for names, factor in _terms(other).items():
            terms[names] = terms.get(names, 0) + factor
        return Polynomial(terms)

    def __mul__(self, other: Amount) -> Polynomial:
        if isinstance(other, int):
            return Polynomial({names: factor * other for names, factor in self.terms.items()})
        terms: dict[tuple[str, ...], int] = {}
        for mine, factor in self.terms.items():
            for others, more in other.terms.items():
                names = tuple(sorted((*mine, *others)))
                terms[names] = terms.get(names, 0) + factor * more
        return Polynomial(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | Polynomial) and self.terms == _terms(other)

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __str__(self) -> str:
        ordered = sorted(self.terms.items(), key=lambda term: (-len(term[0]), term[0]))
        text = " + ".join(_product_text(names, factor) for names, factor in ordered)
        return text.replace("+ -", "- ") or "0"

    __repr__ = __str__

    def symbols(self) -> set[str]:
        """Return the names of the dimensions."""
        return {name for names in self.terms for name in names}


Amount = int | Polynomial


def _terms(amount: Amount) -> Mapping[tuple[str, ...], int]:
    return amount.terms if isinstance(amount, Polynomial) else {(): amount} if amount else {}


def _product_text(names: tuple[str, ...], factor: int) -> str:
    powers = [name if (power := names.count(name)) == 1 else f"{name}**{power}" for name in dict.fromkeys(names)]
    return "*".join(powers if factor == 1 and powers else [str(factor), *powers])


def product(amounts: Iterable[Amount]) -> Amount:
    """Multiply; nothing gives 1."""
    result: Amount = 1
    for amount in amounts:
        result = result * amount
    return result


def total(amounts: Iterable[Amount | None]) -> Amount:
    """Add what is known."""
    number, symbolic = 0, dict[tuple[str, ...], int]()
    for amount in amounts:
        if isinstance(amount, int):
            number += amount
        elif amount is not None:
            for names, factor in amount.terms.items():
                symbolic[names] = symbolic.get(names, 0) + factor
    return Polynomial(symbolic) + number if symbolic else number


def nominal(amount: Amount, of: int = NOMINAL) -> int:
    """Return a number to compare by: every dynamic dimension counts as ``of``."""
    if isinstance(amount, int):
        return amount
    return sum(factor * of ** len(names) for names, factor in amount.terms.items())


def json_amount(amount: Amount | None) -> int | str | None:
    """Return a number, or the formula as text."""
    return str(amount) if isinstance(amount, Polynomial) else amount


def dims(value: ir.Value | None) -> list[Amount]:
    """Return the dimensions of a value. Raises UnknownSizeError."""
    if value is None:
        raise UnknownSizeError("an input is missing")
    if value.shape is None:
        raise UnknownSizeError(f"the shape of '{value.name}' is not known")
    return [dim if isinstance(dim, int) else _symbolic(dim, value) for dim in value.shape.dims]


def size(value: ir.Value | None) -> Amount:
    """Return the number of elements of a value. Raises UnknownSizeError."""
    return product(dims(value))


def nbytes(value: ir.Value | None) -> Amount:
    """Return the number of bytes of a value. Raises UnknownSizeError."""
    if value is None or value.name == "":
        return 0
    if value.dtype is None or value.dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        raise UnknownSizeError(f"the size of the elements of '{value.name}' is not known")
    elements, width = size(value), value.dtype.itemsize
    if isinstance(elements, int):
        return math.ceil(elements * width)
    return Polynomial({names: math.ceil(factor * width) for names, factor in elements.terms.items()})


def _symbolic(dim: Any, value: ir.Value) -> Amount:
    text = cast("str | None", dim.value)
    if text is None:
        raise UnknownSizeError(f"a dimension of '{value.name}' has neither number nor name")
    return _parsed(text)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Amount:
    """Turn the text of a dimension into a polynomial; what is none, as ``floor(N/2)``, counts as a name."""
    if text.isidentifier():
        return Polynomial({(text,): 1})
    try:
        expression: Any = ir.SymbolicDim(text)._expr  # pyright: ignore[reportPrivateUsage]
        coefficients = dict[Any, Any](expression.expand().as_coefficients_dict())
    except (ValueError, TypeError, SyntaxError, AttributeError):
        return Polynomial({(text,): 1})
    terms: dict[tuple[str, ...], int] = {}
    for monomial, factor in coefficients.items():
        powers = dict[Any, Any](monomial.as_powers_dict())
        if not factor.is_integer or not all(p.is_integer and p.is_positive for p in powers.values()):
            return Polynomial({(text,): 1})
        names = (str(base) for base, power in powers.items() if base != 1 for _ in range(int(power)))
        terms[tuple(sorted(names))] = int(factor)
    return Polynomial(terms)
