"""Normal forms of terms, by lemmas that hold bit by bit.

Integers are a ring modulo 2ʷ: sums, differences and products of them become polynomials. Truth values and bits are
written with *and*, *not* and *exclusive or*. Floats only commute, give up their signs to products, and drop what is
neutral whatever the other operand is. ``tests/proofs/test_lemmas.py`` has each proved by a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.rings import add_up, is_ring, multiplied, negated, ring_constant, scaled

if TYPE_CHECKING:
    from onnx_passes.ops.number_systems.terms import Terms

Lemma = Callable[["Terms", Symbol, tuple[int, ...]], int | None]
SequenceLemma = Callable[["Terms", Symbol, Sequence[Sequence[int]]], int | None]

LEMMAS: dict[str, Lemma] = {}
SEQUENCES: dict[str, SequenceLemma] = {}
_BOOL = ir.DataType.BOOL
_NOT = Symbol("Not", _BOOL, (_BOOL,))
_AND = Symbol("And", _BOOL, (_BOOL, _BOOL))
_XOR = Symbol("Xor", _BOOL, (_BOOL, _BOOL))
_SAYS_INTEGER_SUMS = "sums of integers by reductions do not overflow"


def _lemma(*names: str) -> Callable[[Lemma], Lemma]:
    def attach(lemma: Lemma) -> Lemma:
        LEMMAS.update(dict.fromkeys(names, lemma))
        return lemma

    return attach


def _commuted(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    return terms.intern(symbol, args if args[0] <= args[1] else args[::-1])


def _is_number(terms: Terms, term: int, number: float, *, negative: bool = False) -> bool:
    found = terms.constants.get(term)
    if found is None or found != number:
        return False
    return number != 0 or bool(np.signbit(found.astype(np.float64))) == negative


# --- numbers ---------------------------------------------------------------------------------------------------------


@_lemma("Add")
def _add(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """Commute; −0 is neutral in floats."""
    if is_ring(symbol.dtype):
        return add_up(terms, symbol.dtype, args)
    a, b = args
    if _is_number(terms, a, 0.0, negative=True):
        return b
    if _is_number(terms, b, 0.0, negative=True):
        return a
    return _commuted(terms, symbol, args)


@_lemma("Sub")
def _sub(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """``x − y = x + (−y)``."""
    a, b = args
    if is_ring(symbol.dtype):
        return add_up(terms, symbol.dtype, (a, negated(terms, symbol.dtype, b)))
    return terms.make(Symbol("Add", symbol.dtype, symbol.sources), (a, negative(terms, symbol.dtype, b)))


@_lemma("Neg")
def _neg(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    return negative(terms, symbol.dtype, args[0])


def negative(terms: Terms, dtype: ir.DataType, term: int) -> int:
    """Return ``−x``, which is ``y`` if ``x`` is ``−y``."""
    if is_ring(dtype):
        return negated(terms, dtype, term)
    if terms.symbols[term].name == "Neg":
        return terms.args[term][0]
    if term in terms.constants:
        return terms.number(dtype, -terms.constants[term])
    return terms.intern(Symbol("Neg", dtype, (dtype,)), (term,))


def _unsigned(terms: Terms, dtype: ir.DataType, args: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """Take the signs out of factors; return whether the product changes its own."""
    # Products of matrices ask for each of their elements many times.
    known = terms.signless.setdefault(dtype, {})
    found = [known.get(term) or known.setdefault(term, _signless(terms, dtype, term)) for term in args]
    return tuple(term for term, _ in found), sum(changes for _, changes in found) % 2 == 1


def _signless(terms: Terms, dtype: ir.DataType, term: int) -> tuple[int, bool]:
    constant = terms.constants.get(term)
    is_negative = terms.symbols[term].name == "Neg" or (
        constant is not None and constant == constant and bool(np.signbit(constant.astype(np.float64)))
    )
    return (negative(terms, dtype, term), True) if is_negative else (term, False)


@_lemma("Mul")
def _mul(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """Commute; 1 is neutral; ``(−x)·y = −(x·y)``."""
    dtype = symbol.dtype
    if is_ring(dtype):
        return multiplied(terms, dtype, *args)
    (a, b), changes = _unsigned(terms, dtype, args)
    if _is_number(terms, a, 1.0):
        found = b
    elif _is_number(terms, b, 1.0):
        found = a
    else:
        found = _commuted(terms, symbol, (a, b))
    return negative(terms, dtype, found) if changes else found


@_lemma("Div")
def _div(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """``x / 1 = x``; ``x / c = x · (1/c)`` where ``1/c`` is exact; ``(−x)/y = −(x/y)``."""
    dtype = symbol.dtype
    if is_ring(dtype):
        return args[0] if _is_number(terms, args[1], 1) else None
    (a, b), changes = _unsigned(terms, dtype, args)
    constant = terms.constants.get(b)
    if constant is not None and np.isfinite(constant.astype(np.float64)) and constant > 0:
        fraction, _ = np.frexp(constant.astype(np.float64))
        with np.errstate(all="ignore"):
            inverse = (1 / constant.astype(np.float64)).astype(dtype.numpy())
        if fraction == 0.5 and np.isfinite(inverse.astype(np.float64)) and inverse != 0:
            found = terms.make(Symbol("Mul", dtype, symbol.sources), (a, terms.number(dtype, inverse)))
            return negative(terms, dtype, found) if changes else found
    found = terms.intern(symbol, (a, b))
    return negative(terms, dtype, found) if changes else found


@_lemma("Abs")
def _abs(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """``|−x| = |x|``, ``||x|| = |x|``."""
    (x,) = args
    inner = terms.symbols[x].name
    if is_ring(symbol.dtype):
        if not symbol.dtype.is_signed():
            return x
        return terms.intern(symbol, (min(x, negated(terms, symbol.dtype, x)),))
    if inner == "Neg":
        return terms.make(symbol, terms.args[x])
    return x if inner == "Abs" else None


@_lemma("Floor", "Ceil", "Round", "Relu", "Sign")
def _idempotent(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Round whole numbers to themselves; ``Relu`` and ``Sign`` do nothing the second time."""
    (x,) = args
    inner = terms.symbols[x].name
    if inner == symbol.name:
        return x
    rounds = symbol.name in ("Floor", "Ceil", "Round")
    return x if rounds and terms.args[x] and len(terms.args[x]) == 1 and traits_of(inner).exact_grid else None


def _flat(terms: Terms, name: str, dtype: ir.DataType, args: Sequence[int]) -> list[int]:
    """List the operands of nested uses of one associative function, each once, in order of their numbers."""
    found: set[int] = set()
    for arg in args:
        symbol = terms.symbols[arg]
        found.update(terms.args[arg] if symbol.name == name and symbol.dtype is dtype else (arg,))
    return sorted(found)


@_lemma("Max", "Min")
def _extreme(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Find one maximum of a set of integers; of floats too, but for the sign of zeros."""
    dtype = symbol.dtype
    if dtype.is_floating_point() and "nsz" not in terms.flags:
        return args[0] if args[0] == args[1] else None
    found = _flat(terms, symbol.name, dtype, args)
    if len(found) == 1:
        return found[0]
    return terms.intern(Symbol(symbol.name, dtype, (dtype,) * len(found)), tuple(found))


@_lemma("Cast")
def _cast(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Take what went through a wider type, which holds it exactly, as it was before."""
    (x,) = args
    inner, target = terms.symbols[x], symbol.dtype
    if inner.name != "Cast" or not _holds(inner.dtype, inner.sources[0]):
        return None
    origin = inner.sources[0]
    if origin is target:
        return terms.args[x][0]
    if inner.dtype.is_floating_point() and target.is_integer() and not _holds(target, origin):
        # What a float that is out of range becomes depends on its type.
        return None
    return terms.make(Symbol("Cast", target, (origin,), symbol.params), terms.args[x])


def _holds(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Tell whether a type has a number for each one of another type."""
    if narrow is _BOOL:
        return True
    if wide is _BOOL:
        return False
    if wide.is_floating_point() and narrow.is_floating_point():
        return _MANTISSAS.get(wide, (0, 0)) >= _MANTISSAS.get(narrow, (99, 99)) and (
            _MANTISSAS[wide][1] >= _MANTISSAS[narrow][1]
        )
    if wide.is_floating_point():
        return wide in _MANTISSAS and narrow.is_integer() and narrow.bitwidth <= _MANTISSAS[wide][0]
    if narrow.is_floating_point():
        return False
    return wide.is_integer() and narrow.is_integer() and bool(wide.min <= narrow.min and wide.max >= narrow.max)


_MANTISSAS = {
    ir.DataType.DOUBLE: (53, 11),
    ir.DataType.FLOAT: (24, 8),
    ir.DataType.FLOAT16: (11, 5),
    ir.DataType.BFLOAT16: (8, 8),
}
"""Bits of precision and of exponents."""


@_lemma("Where")
def _where(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Drop a decision that is known or does not matter, and turn one that is the other way round."""
    condition, a, b = args
    if condition in terms.constants:
        return a if terms.constants[condition] else b
    if a == b:
        return a
    if terms.symbols[condition].name == "Not":
        return terms.make(symbol, (*terms.args[condition], b, a))
    return None


# --- truth values ----------------------------------------------------------------------------------------------------


@_lemma("Not")
def _not(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    (x,) = args
    return terms.args[x][0] if terms.symbols[x].name == "Not" else None


def inverse(terms: Terms, term: int) -> int:
    """Return ``not x``."""
    return terms.make(_NOT, (term,))


@_lemma("And")
def _and(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """Associate, commute, drop doubles; ``x and not x`` is false."""
    found: list[int] = []
    for term in _flat(terms, "And", _BOOL, args):
        if term not in terms.constants:
            found.append(term)
        elif not terms.constants[term]:
            return terms.number(_BOOL, False)
    kept = set(found)
    if any(terms.symbols[term].name == "Not" and terms.args[term][0] in kept for term in found):
        return terms.number(_BOOL, False)
    if len(found) < 2:
        return found[0] if found else terms.number(_BOOL, True)
    return terms.intern(Symbol("And", _BOOL, (_BOOL,) * len(found)), tuple(found))


@_lemma("Or")
def _or(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """``x or y = not (not x and not y)``."""
    return inverse(terms, terms.make(_AND, tuple(inverse(terms, term) for term in args)))


@_lemma("Xor")
def _xor(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """Associate, commute; what is there twice, constants and negations are counted."""
    odd, counted = False, dict[int, int]()
    for arg in args:
        negates = terms.symbols[arg].name == "Not"
        odd ^= negates
        inner = terms.args[arg][0] if negates else arg
        for term in terms.args[inner] if terms.symbols[inner].name == "Xor" else (inner,):
            if term in terms.constants:
                odd ^= bool(terms.constants[term])
            else:
                counted[term] = counted.get(term, 0) + 1
    found = sorted(term for term, count in counted.items() if count % 2)
    if len(found) < 2:
        result = found[0] if found else terms.number(_BOOL, False)
    else:
        result = terms.intern(Symbol("Xor", _BOOL, (_BOOL,) * len(found)), tuple(found))
    return inverse(terms, result) if odd else result


# --- comparisons -----------------------------------------------------------------------------------------------------


@_lemma("Greater")
def _greater(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    return terms.make(symbol._replace(name="Less"), args[::-1])


@_lemma("GreaterOrEqual")
def _greater_or_equal(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    return terms.make(symbol._replace(name="LessOrEqual"), args[::-1])


@_lemma("LessOrEqual")
def _less_or_equal(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Among integers, ``x ≤ y`` is ``not y < x``; NaN is not even equal to itself."""
    a, b = args
    if not symbol.sources[0].is_floating_point():
        return inverse(terms, terms.make(symbol._replace(name="Less"), (b, a)))
    return _is_itself(terms, a, symbol) if a == b else None


@_lemma("Less")
def _less(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    return terms.number(_BOOL, False) if args[0] == args[1] else None


def _is_itself(terms: Terms, term: int, symbol: Symbol) -> int:
    return inverse(terms, terms.make(Symbol("IsNaN", _BOOL, symbol.sources[:1]), (term,)))


@_lemma("Equal")
def _equal(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """Integers are equal if their difference is zero, floats if they are no NaN besides."""
    a, b = args
    dtype = symbol.sources[0]
    if is_ring(dtype):
        difference = add_up(terms, dtype, (a, negated(terms, dtype, b)))
        other = negated(terms, dtype, difference)
        zero = terms.number(dtype, 0)
        if difference in terms.constants:
            return terms.number(_BOOL, not terms.constants[difference])
        return terms.intern(symbol, (min(difference, other), zero))
    if dtype is _BOOL:
        return inverse(terms, terms.make(_XOR, (a, b)))
    if a == b and dtype.is_floating_point():
        return _is_itself(terms, a, symbol)
    return terms.number(_BOOL, True) if a == b else _commuted(terms, symbol, args)


# --- bits ------------------------------------------------------------------------------------------------------------


def flipped(terms: Terms, dtype: ir.DataType, term: int) -> int:
    """Return ``~x = −x − 1``."""
    return add_up(terms, dtype, (negated(terms, dtype, term), ring_constant(terms, dtype, -1)))


@_lemma("BitwiseNot")
def _bitwise_not(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    return flipped(terms, symbol.dtype, args[0])


@_lemma("BitwiseAnd")
def _bitwise_and(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    dtype = symbol.dtype
    zero, ones = ring_constant(terms, dtype, 0), ring_constant(terms, dtype, -1)
    flat = _flat(terms, "BitwiseAnd", dtype, args)
    found = [term for term in flat if term != ones]
    kept = set(found)
    if zero in kept or any(flipped(terms, dtype, term) in kept for term in found):
        return zero
    if len(found) < 2:
        return found[0] if found else ones
    return terms.intern(Symbol("BitwiseAnd", dtype, (dtype,) * len(found)), tuple(found))


@_lemma("BitwiseOr")
def _bitwise_or(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    """``x | y = ~(~x & ~y)``."""
    dtype = symbol.dtype
    both = terms.make(symbol._replace(name="BitwiseAnd"), tuple(flipped(terms, dtype, term) for term in args))
    return flipped(terms, dtype, both)


@_lemma("BitwiseXor")
def _bitwise_xor(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int:
    dtype = symbol.dtype
    a, b = sorted(args)
    if a == b:
        return ring_constant(terms, dtype, 0)
    for one, other in ((a, b), (b, a)):
        if one == ring_constant(terms, dtype, 0):
            return other
        if one == ring_constant(terms, dtype, -1):
            return flipped(terms, dtype, other)
    return terms.intern(symbol, (a, b))


@_lemma("BitShift")
def _shift(terms: Terms, symbol: Symbol, args: tuple[int, ...]) -> int | None:
    """Take a shift to the left by a known distance for a product."""
    x, by = args
    if by not in terms.constants:
        return None
    distance = int(terms.constants[by])
    if distance == 0:
        return x
    if symbol.params[0] != "LEFT" or distance < 0:
        return None
    return scaled(terms, symbol.dtype, x, 1 << distance if distance < symbol.dtype.bitwidth else 0)


# --- sequences -------------------------------------------------------------------------------------------------------


def _of_sequence(*names: str) -> Callable[[SequenceLemma], SequenceLemma]:
    def attach(lemma: SequenceLemma) -> SequenceLemma:
        SEQUENCES.update(dict.fromkeys(names, lemma))
        return lemma

    return attach


@_of_sequence("ReduceSum", "ReduceMean", "ReduceProd")
def _reduced(terms: Terms, symbol: Symbol, sequences: Sequence[Sequence[int]]) -> int | None:
    """One element is its own sum, mean and product; integers are added in any order."""
    (found,) = sequences
    if len(found) == 1:
        return found[0]
    if symbol.name == "ReduceSum" and is_ring(symbol.dtype):
        terms.assumed.add(_SAYS_INTEGER_SUMS)
        return add_up(terms, symbol.dtype, found)
    return None


@_of_sequence("ReduceL1", "ReduceSumSquare")
def _reduced_alone(terms: Terms, symbol: Symbol, sequences: Sequence[Sequence[int]]) -> int | None:
    """Return the norm of one element; of an integer under the assumption that it does not overflow."""
    (found,) = sequences
    if len(found) != 1:
        return None
    if symbol.dtype.is_integer():
        terms.assumed.add(_SAYS_INTEGER_SUMS)
    if symbol.name == "ReduceL1":
        return terms.make(Symbol("Abs", symbol.dtype, symbol.sources), (found[0],))
    return terms.make(Symbol("Mul", symbol.dtype, symbol.sources * 2), (found[0], found[0]))


@_of_sequence("ReduceMax", "ReduceMin")
def _reduced_extreme(terms: Terms, symbol: Symbol, sequences: Sequence[Sequence[int]]) -> int | None:
    (found,) = sequences
    if len(found) == 1:
        return found[0]
    if symbol.dtype.is_floating_point() and not {"nsz", "nnan"} <= terms.flags:
        return None
    name = symbol.name.removeprefix("Reduce")
    flat = _flat(terms, name, symbol.dtype, found)
    if len(flat) == 1:
        return flat[0]
    return terms.intern(Symbol(name, symbol.dtype, (symbol.dtype,) * len(flat)), tuple(flat))


@_of_sequence("PoolMax")
def _pooled_maximum(terms: Terms, symbol: Symbol, sequences: Sequence[Sequence[int]]) -> int | None:
    """Take it for any maximum, where there are no NaN and no infinities."""
    if not {"nnan", "ninf"} <= terms.flags:
        return None
    plain = Symbol("ReduceMax", symbol.dtype, symbol.sources)
    found = _reduced_extreme(terms, plain, sequences)
    return terms.intern(plain, tuple(sequences[0])) if found is None else found


@_of_sequence("Dot", "Gemm")
def _dot(terms: Terms, symbol: Symbol, sequences: Sequence[Sequence[int]]) -> int | None:
    """Take a scalar product for a function of the sequence of its products, whose factors commute and share signs."""
    dtype, (left, right, *bias) = symbol.dtype, sequences
    if is_ring(dtype):
        if symbol.params not in ((), (1.0, 1.0)):
            return None
        products = [multiplied(terms, dtype, a, b) for a, b in zip(left, right, strict=True)]
        return add_up(terms, dtype, (*products, *(row[0] for row in bias)))
    args: list[int] = [row[0] for row in bias]
    exact = Symbol("Product", dtype, (dtype, dtype))
    for pair in zip(left, right, strict=True):
        (a, b), changes = _unsigned(terms, dtype, pair)
        found = _commuted(terms, exact, (a, b))
        args.append(terms.intern(Symbol("Neg", dtype, (dtype,)), (found,)) if changes else found)
    return terms.intern(Symbol(symbol.name, dtype, (dtype,) * len(args), (*symbol.params, len(bias))), tuple(args))
