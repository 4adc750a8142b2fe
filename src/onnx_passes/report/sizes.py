"""Short names for sizes that are formulas, so that amounts fit on a line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate

from onnx_passes.core.text import shortened
from onnx_passes.graph.extents import Extent, Monomial

_FORMULA = re.compile(r"[()+*/]")
_CALL = re.compile(r"\w+\(")
_TERMS = 4
_LISTED = 24
_LONGEST = 100
"""Characters of a formula that are shown."""


class SizeNames:
    """Names ``d1``, ``d2``, … for formulas in the output, and their definitions.

    ``reserved`` are the names of dimensions, which no other size may have.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self._reserved = frozenset(reserved)
        self._names: dict[str, str] = {}

    def of(self, size: str) -> str:
        """Return the name of a size: its own, unless that is a formula."""
        if size not in self._names and _FORMULA.search(size):
            self._names[size] = self._next()
        return self._names.get(size, size)

    def _next(self) -> str:
        number = len(self._names) + 1
        while f"d{number}" in self._reserved or f"d{number}" in self._names.values():
            number += 1
        return f"d{number}"

    def shape(self, text: str) -> str:
        """Write a shape, ``N×3×H``, with names of sizes."""
        return "×".join(map(self.of, text.split("×")))

    def formula(self, amount: Extent, unit: str = "", width: int | None = None) -> str:
        """Write the greatest terms of a formula; with a ``width``, as many as it holds, and at least one."""
        ordered = sorted(amount.terms.items(), key=lambda term: (-len(term[0]), -term[1], term[0]))
        many = min(len(ordered), _TERMS)
        if width is None:
            rest = len(ordered) - many
            more = f" + … ({rest} more terms, give numbers with --dim)" if rest else ""
            return f"{self._sum(ordered[:many])}{more}{unit}"
        texts = (f"{self._sum(ordered[:n])}{' + …' if n < len(ordered) else ''}{unit}" for n in range(many, 1, -1))
        shortest = f"{self._sum(ordered[:1])}{' + …' if len(ordered) > 1 else ''}{unit}"
        return next((text for text in texts if len(text) <= width), shortest)

    def _sum(self, terms: Sequence[tuple[Monomial, int]]) -> Extent:
        return Extent({tuple(sorted(map(self.of, names))): factor for names, factor in terms})

    def lines(self) -> Iterator[str]:
        """Return the definitions of the names, in terms of one another; empty if no formula was named."""
        by_length = sorted(self._names, key=len)
        for number, formula in enumerate(by_length[:_LISTED]):
            text, name = formula, self._names[formula]
            for other in reversed(by_length[:number]):
                if len(other) < len(formula):
                    # A sum is one operand only in brackets: 3*(a + b) holds it, 3*a + b does not.
                    part = other if _is_call(other) else f"({other})"
                    text = text.replace(part, self._names[other])
            yield shortened(f"{name} = {text}", _LONGEST)
        if len(self._names) > _LISTED:
            yield f"and {len(self._names) - _LISTED} more"
        if self._names:
            yield "give numbers with --dim NAME=SIZE"


def _is_call(formula: str) -> bool:
    """Return whether a formula is one call, ``floor(…)``, which no operator around it takes apart."""
    if not _CALL.match(formula) or not formula.endswith(")"):
        return False
    depths = accumulate((character == "(") - (character == ")") for character in formula)
    return all(depth for depth in list(depths)[formula.index("(") : -1])
