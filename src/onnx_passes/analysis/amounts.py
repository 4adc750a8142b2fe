"""Numbers of elements, operations and bytes: plain integers, or polynomials where dimensions are dynamic."""

from __future__ import annotations

import math
from collections.abc import Iterable

import onnx_ir as ir

from onnx_passes.graph.extents import Amount, Extent, Monomial, extent, product

NOMINAL = 64
"""What a dynamic dimension counts where amounts have to be compared."""


class UnknownSizeError(Exception):
    """A size is not known, not even as a formula; the text says of what."""


def total(amounts: Iterable[Amount | None]) -> Amount:
    """Add what is known."""
    number, symbolic = 0, dict[Monomial, int]()
    for amount in amounts:
        if isinstance(amount, int):
            number += amount
        elif amount is not None:
            for names, factor in amount.terms.items():
                symbolic[names] = symbolic.get(names, 0) + factor
    return Extent(symbolic) + number if symbolic else number


def nominal(amount: Amount, of: int = NOMINAL) -> int:
    """Return a number to compare by: every dynamic dimension counts as ``of``."""
    if isinstance(amount, int):
        return amount
    return sum(factor * of ** len(names) for names, factor in amount.terms.items())


def dims(value: ir.Value | None) -> list[Amount]:
    """Return the dimensions of a value. Raises UnknownSizeError."""
    if value is None:
        raise UnknownSizeError("an input is missing")
    if value.shape is None:
        raise UnknownSizeError(f"the shape of '{value.name}' is not known")
    found = [dim if isinstance(dim, int) else extent(dim) for dim in value.shape]
    known = [amount for amount in found if amount is not None]
    if len(known) < len(found):
        raise UnknownSizeError(f"a dimension of '{value.name}' has neither number nor name")
    return known


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
    return Extent({names: math.ceil(factor * width) for names, factor in elements.terms.items()})
