"""Sizes that depend on dynamic dimensions: polynomials in the names of dimensions, with integer coefficients.

The symbolic dimensions of onnx_ir use SymPy, which is slow, and slower to print. An extent is a symbolic dimension
with its own arithmetic, so that computing with shapes is fast. Non-polynomial terms, such as ``floor(N/2)``, count
as names. No name is ever negative.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import onnx_ir as ir

Monomial = tuple[str, ...]

_DOT = "\ua78f"
_HIGHEST_DEGREE = 64
_MOST_TERMS = 1000
"""Sizes of real models have fewer terms; short expressions can exceed all memory."""


class Extent(ir.SymbolicDim):
    """A sum of products of names in a normal form: extents that are equal for all data have the same text."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {names: factor for names, factor in terms.items() if factor}
        super().__init__(_text(self.terms))

    def __eq__(self, other: object) -> bool:
        # The check of the base class tests every member of a protocol.
        if type(other) is Extent or type(other) is ir.SymbolicDim:
            return self.value == other.value
        return type(other) is not int and super().__eq__(other)

    __hash__ = ir.SymbolicDim.__hash__

    @property
    def _expr(self) -> Any:
        """Return the value by which onnx_shape_inference compares dimensions."""
        return self

    def __add__(self, other: Any) -> Any:
        return _calculate(operator.add, _sum, self, other)

    def __radd__(self, other: Any) -> Any:
        return _calculate(operator.add, _sum, other, self)

    def __sub__(self, other: Any) -> Any:
        return _calculate(operator.sub, _difference, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _calculate(operator.sub, _difference, other, self)

    def __mul__(self, other: Any) -> Any:
        return _calculate(operator.mul, _product, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _calculate(operator.mul, _product, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _calculate(_true_division, _exact, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _calculate(_true_division, _exact, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _calculate(_floor_division, _quotient, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _calculate(_floor_division, _quotient, other, self)

    def __mod__(self, other: Any) -> Any:
        return self - self // other * other

    def __neg__(self) -> Any:
        return self * -1

    def __floor__(self) -> Any:
        return self

    __ceil__ = __trunc__ = simplify = __floor__

    def evaluate(self, bindings: Mapping[str, int]) -> int | ir.SymbolicDim:
        """Return the size with numbers for names, or a symbolic size if some have none."""
        # SymPy rounds down wrongly if a size is zero.
        size = number_of(self, bindings)
        return ir.SymbolicDim(self.value).evaluate(bindings) if size is None else size

    def free_symbols(self) -> frozenset[str]:
        """Return all names, including those inside non-polynomial terms."""
        return frozenset[str]().union(*map(_names_in, self.symbols()))

    def symbols(self) -> set[str]:
        """Return the names of the polynomial."""
        return {name for names in self.terms for name in names}

    @property
    def is_never_negative(self) -> bool:
        """Return whether the extent is not negative for any sizes of the dimensions."""
        return all(factor >= 0 for factor in self.terms.values())


Amount = int | Extent
Element = Amount | None
"""An element of a partly known vector; None if unknown."""


def extent(dim: int | ir.SymbolicDim) -> Element:
    """Return a dimension as a polynomial; non-polynomial ones count as names, unnamed ones are unknown."""
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    if isinstance(dim, Extent) or dim.value is None:
        return dim if isinstance(dim, Extent) else None
    found = parse(dim.value)
    return Extent({(dim.value,): 1}) if found is None else found


def product(amounts: Iterable[Amount]) -> Amount:
    """Multiply; an empty product is 1."""
    result: Amount = 1
    for amount in amounts:
        result = result * amount
    return result


def add(a: Element, b: Element) -> Element:
    """Add two elements."""
    return None if a is None or b is None else a + b


def multiply(a: Element, b: Element) -> Element:
    """Multiply two elements; zero times anything is zero."""
    if 0 in (a, b):
        return 0
    return None if a is None or b is None else a * b


def negate(a: Element) -> Element:
    """Change the sign of an element."""
    return None if a is None else -a


def divide(a: Element, b: Element) -> Element:
    """Divide if the quotient is an integer for all data; None otherwise, and for a zero divisor."""
    if a is None or b is None or b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return _exact(_known_terms(a), _known_terms(b))


def compare(a: Element, b: Element) -> int | None:
    """Return the sign of the difference; None unless it is the same for all data."""
    difference = add(a, negate(b))
    if difference is None:
        return None
    terms = _known_terms(difference)
    constant = terms.get((), 0)
    signs = {(factor > 0) - (factor < 0) for factor in terms.values()}
    return signs.pop() if constant and len(signs) == 1 else 0 if not terms else None


def greatest(a: Element, b: Element) -> Element:
    """Return the maximum of two elements; None if it may be negative or unknown."""
    if a is None or b is None or _is_never_negative(a - b):
        return None if b is None else a
    if _is_never_negative(b - a):
        return b
    return _choice("Max", a, b) if _is_never_negative(a) or _is_never_negative(b) else None


def least(a: Element, b: Element) -> Element:
    """Return the minimum of two elements; None if it may be negative or unknown."""
    if a is None or b is None or _is_never_negative(b - a):
        return None if b is None else a
    if _is_never_negative(a - b):
        return b
    return _choice("Min", a, b) if _is_never_negative(a) and _is_never_negative(b) else None


def is_limited(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    """Return whether a size is the minimum of another size and a number above one."""
    if isinstance(a, int) or isinstance(b, int) or a.value is None:
        return False
    found = re.fullmatch(r"Min\((\d+), (.+)\)", a.value)
    return found is not None and int(found[1]) > 1 and found[2] == b.value


def _is_never_negative(amount: Amount) -> bool:
    return amount >= 0 if isinstance(amount, int) else amount.is_never_negative


def _choice(name: str, *amounts: Amount) -> Extent:
    return Extent({(f"{name}({', '.join(sorted(map(str, amounts)))})",): 1})


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Element:
    """Parse arithmetic on names; None for other texts."""
    if text.isidentifier():
        return Extent({(text,): 1})
    try:
        found = _evaluated(_tree(text))
    except (ArithmeticError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
        return None
    return found if isinstance(found, int | Extent) else None


@functools.lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    """Parse the text with Python; dots in names, as in ``x.1_dim_0``, are replaced by letters."""
    return ast.parse(re.sub(r"(?<=\w)\.(?=\w)", _DOT, text), mode="eval").body


def _evaluated(node: ast.expr, sizes: Mapping[str, int] | None = None) -> Any:
    """Evaluate the expression, with ``sizes`` for names if given.

    Raises ValueError if it is not arithmetic on sizes, KeyError if a name has no size.
    """
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            plain = name.replace(_DOT, ".")
            return Extent({(plain,): 1}) if sizes is None else sizes[plain]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluated(operand, sizes)
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=int(power))) if power <= _HIGHEST_DEGREE:
            found = _evaluated(base, sizes)
            if isinstance(found, int) and found.bit_length() * power > _HIGHEST_DEGREE:
                raise OverflowError("a power of a number is too large")
            return product([found] * power)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _OPERATIONS[type(operation)](_evaluated(left, sizes), _evaluated(right, sizes))
        case ast.Call(func=ast.Name(id="floor"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)]):
            return _evaluated(left, sizes) // _evaluated(right, sizes)
        case ast.Call(func=ast.Name(id="max" | "Max"), args=arguments):
            return functools.reduce(greatest, (_evaluated(each, sizes) for each in arguments))
        case ast.Call(func=ast.Name(id="min" | "Min"), args=arguments):
            return functools.reduce(least, (_evaluated(each, sizes) for each in arguments))
        case _:
            raise ValueError("no arithmetic on sizes")


def number_of(amount: Amount, sizes: Mapping[str, int]) -> int | None:
    """Return an amount with sizes for its names; None if one of them has no size."""
    if isinstance(amount, int):
        return amount
    total = 0
    for names, factor in amount.terms.items():
        known = [sizes[name] if name in sizes else _sized(name, sizes) for name in names]
        if None in known:
            return None
        total += math.prod(filter(None, known), start=factor) if 0 not in known else 0
    return total


def _sized(text: str, sizes: Mapping[str, int]) -> int | None:
    if text.isidentifier():
        return None
    try:
        found = _evaluated(_tree(text), sizes)
    except (ArithmeticError, KeyError, SyntaxError, TypeError, ValueError):
        return None
    return found if isinstance(found, int) else None


def _names_in(text: str) -> set[str]:
    """Return the names in a term: those of ``floor(N/2)`` are the dimensions in it."""
    if text.isidentifier() or parse(text) is None:
        return {text}
    nodes = list(ast.walk(_tree(text)))
    functions = {node.func for node in nodes if isinstance(node, ast.Call)}
    return {node.id.replace(_DOT, ".") for node in nodes if isinstance(node, ast.Name) and node not in functions}


def symbols_of(dim: int | ir.SymbolicDim) -> set[str]:
    """Return the names from which a size is computed: its text if that is not arithmetic, none without a letter."""
    if isinstance(dim, int) or dim.value is None or not re.search(r"[^\W\d_]", dim.value):
        return set()
    return _names_in(dim.value)


def size_of(dim: int | ir.SymbolicDim, sizes: Mapping[str, int]) -> int | ir.SymbolicDim:
    """Return a dimension with sizes for the names that have one."""
    if isinstance(dim, int) or dim.value is None or sizes.keys().isdisjoint({dim.value, *symbols_of(dim)}):
        return dim
    if dim.value in sizes:
        return sizes[dim.value]
    try:
        return ir.SymbolicDim(dim.value).evaluate(sizes)
    except (ArithmeticError, TypeError, ValueError):
        return dim


Terms = Mapping[Monomial, int]


def _known_terms(amount: Amount) -> Terms:
    return {(): amount} if isinstance(amount, int) and amount else {} if isinstance(amount, int) else amount.terms


def _terms_of(operand: object) -> Terms | None:
    """Return the terms of an operand; None if it is not a polynomial."""
    if type(operand) is Extent:
        return operand.terms
    if not isinstance(operand, int) and isinstance(operand, ir.SymbolicDim):
        operand = None if operand.value is None else parse(operand.value)
    return _known_terms(operand) if isinstance(operand, int | Extent) else None


def _true_division(a: Any, b: Any) -> Any:
    return a / b


def _floor_division(a: Any, b: Any) -> Any:
    return a // b


_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: _floor_division,
    ast.Mod: operator.mod,
}


def _calculate(operation: Callable[[Any, Any], Any], rule: Callable[[Terms, Terms], Element], a: Any, b: Any) -> Any:
    """Compute with polynomials, or with SymPy where they do not suffice."""
    p, q = _terms_of(a), _terms_of(b)
    found = None if p is None or q is None else rule(p, q)
    if found is not None:
        return found
    return operation(*(ir.SymbolicDim(side.value) if isinstance(side, Extent) else side for side in (a, b)))


def _normal(terms: Terms) -> Amount:
    kept = {names: factor for names, factor in terms.items() if factor}
    return Extent(kept) if any(kept) else kept.get((), 0)


def _sum(a: Terms, b: Terms) -> Amount:
    terms = dict(a)
    for names, factor in b.items():
        terms[names] = terms.get(names, 0) + factor
    return _normal(terms)


def _difference(a: Terms, b: Terms) -> Amount:
    return _sum(a, {names: -factor for names, factor in b.items()})


def _product(a: Terms, b: Terms) -> Amount:
    if len(a) * len(b) > _MOST_TERMS or max(map(len, a), default=0) + max(map(len, b), default=0) > _HIGHEST_DEGREE:
        raise OverflowError("a product of dimensions has too many terms")
    terms: dict[Monomial, int] = {}
    for p, m in a.items():
        for q, n in b.items():
            names = tuple(sorted(p + q)) if p and q else p or q
            terms[names] = terms.get(names, 0) + m * n
    return _normal(terms)


def _exact(a: Terms, b: Terms) -> Element:
    """Divide polynomials, highest terms first; None if there is a remainder."""
    if not b:
        return None
    highest = max(b, key=_order)
    rest, quotient = _normal(a), 0
    while rest != 0:
        terms = _known_terms(rest)
        top = max(terms, key=_order)
        left = _without(top, highest)
        if left is None or terms[top] % b[highest]:
            return None
        part = {left: terms[top] // b[highest]}
        quotient += _normal(part)
        rest -= _product(part, b)
    return quotient


def _order(names: Monomial) -> tuple[int, Monomial]:
    return len(names), names


def _without(names: Monomial, part: Monomial) -> Monomial | None:
    left = list(names)
    for name in part:
        if name not in left:
            return None
        left.remove(name)
    return tuple(left)


def _quotient(a: Terms, b: Terms) -> Element:
    """Divide and round down; None if the result is not a polynomial and may be negative."""
    if len(b) == 1 and () in b:
        return _rounded(a, b[()])
    exact = _exact(a, b)
    if exact is not None or not b:
        return exact
    a, b = _cancelled(a, b)
    if not any(b):
        return _rounded(a, b[()])
    if min((*a.values(), *b.values())) < 0:
        return None
    return Extent({(f"floor({_operand(a)}/{_operand(b, single=True)})",): 1})


def _cancelled(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """Divide both by the names that all their terms share."""
    names = functools.reduce(_shared, (*a, *b))
    first, second = ({_without(p, names) or (): factor for p, factor in terms.items()} for terms in (a, b))
    return first, second


def _shared(a: Monomial, b: Monomial) -> Monomial:
    return tuple(sorted(name for name in {*a} & {*b} for _ in range(min(a.count(name), b.count(name)))))


def _rounded(terms: Terms, divisor: int) -> Amount:
    """Divide by a number and round down: whole multiples are factored out, and the remainder is never negative."""
    if divisor < 0:
        terms, divisor = {names: -factor for names, factor in terms.items()}, -divisor
    whole = {names: factor // divisor for names, factor in terms.items()}
    left = {names: factor % divisor for names, factor in terms.items()}
    common = math.gcd(divisor, *(factor for names, factor in left.items() if names))
    divisor //= common
    if divisor > 1:
        rest = _operand({names: factor // common for names, factor in left.items() if factor >= common})
        whole[f"floor({rest}/{divisor})",] = 1
    return _normal(whole)


def _operand(terms: Terms, *, single: bool = False) -> str:
    text = _sum_text(terms)
    return f"({text})" if len(terms) > 1 or (single and "*" in text) else text


def _text(terms: Terms) -> str:
    match list(terms.items()):
        case [((name,), 1)]:
            return name
        case _:
            return _sum_text(terms)


def _sum_text(terms: Terms) -> str:
    ordered = sorted(terms.items(), key=lambda term: (-len(term[0]), term[0]))
    return " + ".join(_term_text(names, factor) for names, factor in ordered).replace("+ -", "- ") or "0"


def _term_text(names: Monomial, factor: int) -> str:
    factors = {name: name if name.isidentifier() or parse(name) is not None else f"({name})" for name in names}
    powers = [text if (power := names.count(name)) == 1 else f"{text}**{power}" for name, text in factors.items()]
    if factor == 1 and powers:
        return "*".join(powers)
    # Some parsers read -N**2 as the square of -N.
    if factor == -1 and powers and "**" not in powers[0]:
        return "-" + "*".join(powers)
    return "*".join([str(factor), *powers])
