"""Data types: integers of any width, sets, grids and floats; their ranges, and their names as QONNX writes them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.datatypes.arrays import ELEMENTS, between, numbers, scaled, whole
from onnx_passes.datatypes.base import EXACT_IN_DOUBLE, Array, DataType

_MOST_EXPONENT_BITS = 11
_MOST_MANTISSA_BITS = 52
_MOST_BIAS = 9999


class Float(DataType):
    """``FLOAT16``, ``FLOAT32``, ``BFLOAT16`` and ``FLOAT64``, with infinities and NaN; QONNX knows the first two.

    ``FLOAT32`` is also what QONNX says where nothing is known, so ``FLOAT32`` and ``FLOAT64`` allow every number.
    """

    def __init__(self, name: str, element: str) -> None:
        known = ELEMENTS[element]
        super().__init__(name, known.bits, known.low, known.high, None, known.precision, known.finest)

    def _has(self, known: Array) -> Array:
        if self.bitwidth >= 32:
            return np.ones(known.shape, dtype=bool)
        exact = _multiples(known, self.precision - 1, self.finest + self.precision - 1)
        return (between(known, self.min or 0, self.max or 0) & exact) | ~np.isfinite(known)


class MiniFloat(DataType):
    """``FLOAT<exponent bits,mantissa bits,bias>`` with a sign, with subnormal numbers, without infinities and NaN."""

    def __init__(self, exponent_bits: int, mantissa_bits: int, bias: int) -> None:
        if not (1 <= exponent_bits <= _MOST_EXPONENT_BITS and 0 <= mantissa_bits <= _MOST_MANTISSA_BITS):
            raise UsageError(
                f"a float cannot have {exponent_bits} bits of exponent and {mantissa_bits} of mantissa",
                hint=f"give 1 to {_MOST_EXPONENT_BITS} and 0 to {_MOST_MANTISSA_BITS}",
            )
        if abs(bias) > _MOST_BIAS:
            raise UsageError(f"the bias {bias} of an exponent is beyond all floats", hint="leave it out")
        bits = 1 + exponent_bits + mantissa_bits
        # All bits are set, as none stand for infinities and NaN; both zeros are one number.
        exponent = (1 << exponent_bits) - 1 - bias - mantissa_bits
        high = ((1 << (mantissa_bits + 1)) - 1) * Fraction(2) ** exponent
        name = f"FLOAT<{exponent_bits},{mantissa_bits},{bias}>"
        super().__init__(name, bits, -high, high, (1 << bits) - 1, mantissa_bits + 1, 1 - bias - mantissa_bits)

    def _has(self, known: Array) -> Array:
        exact = _multiples(known, self.precision - 1, self.finest + self.precision - 1)
        return between(known, self.min or 0, self.max or 0) & exact


def _multiples(array: Array, mantissa_bits: int, least_exponent: int) -> Array:
    """Return which elements are multiples of the last mantissa bit, fixed below the least exponent."""
    known, exact = array, np.True_
    if array.dtype.kind in "iu":
        known, exact = array.astype(np.float64), _at_most_53_bits(array)
    _, exponents = np.frexp(np.where(np.isfinite(known), known, 0))
    units = scaled(known, mantissa_bits - np.maximum(exponents - 1, least_exponent))
    # What is not zero, but becomes so, is finer than any bit here.
    return exact & whole(units) & ((units != 0) | (known == 0))


def _at_most_53_bits(array: Array) -> Array:
    """Return which integers have at most 53 significant bits, so that a double holds them."""
    if array.dtype.itemsize < 8:
        return np.ones(array.shape, dtype=bool)
    # The opposite of the smallest integer is itself, and right again once it has no sign.
    magnitude = np.abs(array).astype(np.uint64)
    last_bit = np.maximum(magnitude & (~magnitude + np.uint64(1)), np.uint64(1))
    return magnitude // last_bit < np.uint64(EXACT_IN_DOUBLE)


FLOAT16 = Float("FLOAT16", "FLOAT16")
FLOAT32 = Float("FLOAT32", "FLOAT")
FLOAT64 = Float("FLOAT64", "DOUBLE")
BFLOAT16 = Float("BFLOAT16", "BFLOAT16")


MOST_BITS = 9999


@dataclass(frozen=True, eq=False, repr=False)
class IntegerType(DataType):
    """Integers between two ends."""

    min: int
    max: int
    count: int
    is_integer = True

    def __init__(self, name: str, bitwidth: int, low: int, high: int, count: int | None = None) -> None:
        # A power of two needs only one significant bit, so that of the most negative value counts one less.
        precision = max((-low - 1).bit_length(), high.bit_length(), 1)
        super().__init__(name, bitwidth, low, high, count or high - low + 1, precision, 0)

    def _has(self, known: Array) -> Array:
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(known)


class Integer(IntegerType):
    """``INT<n>`` in two's complement, ``UINT<n>``; ``UINT1`` is called ``BINARY``."""

    def __init__(self, bits: int, *, is_signed: bool) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise UsageError(f"an integer cannot have {bits} bits", hint=f"give 1 to {MOST_BITS}")
        name = f"INT{bits}" if is_signed else "BINARY" if bits == 1 else f"UINT{bits}"
        super().__init__(name, bits, -(1 << (bits - 1)) if is_signed else 0, (1 << (bits - is_signed)) - 1)


class _Bipolar(IntegerType):
    """-1 and 1, and not 0."""

    def _has(self, known: Array) -> Array:
        return (known == 1) | (known == -1)


BINARY = Integer(1, is_signed=False)
BIPOLAR = _Bipolar("BIPOLAR", 1, -1, 1, count=2)
TERNARY = IntegerType("TERNARY", 2, -1, 1)


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoint(DataType):
    """``FIXED<bits,integer bits>``: signed integers of ``bits`` bits, divided by two to the power of the rest."""

    min: Fraction
    max: Fraction
    is_fixed_point = True

    def __init__(self, bits: int, integer_bits: int) -> None:
        # What has no bit behind the point is an integer, and QONNX refuses it, too.
        if not 1 <= bits <= MOST_BITS or not -MOST_BITS <= integer_bits < bits:
            raise UsageError(
                f"a fixed-point number cannot have {bits} bits, {integer_bits} of them before the point",
                hint=f"give 1 to {MOST_BITS} bits, and fewer of them before the point",
            )
        low, unit = Fraction(-(1 << (bits - 1)), 1 << (bits - integer_bits)), Fraction(1, 1 << (bits - integer_bits))
        name = f"FIXED<{bits},{integer_bits}>"
        super().__init__(name, bits, low, -low - unit, 1 << bits, max(bits - 1, 1), integer_bits - bits)

    @property
    def fraction_bits(self) -> int:
        """Return how many bits stand behind the point."""
        return -self.finest

    def _has(self, known: Array) -> Array:
        inside = between(known, self.min, self.max)
        return inside if known.dtype.kind in "iu" else inside & whole(scaled(known, self.fraction_bits))


class ScaledInteger(DataType):
    """``SCALEDINT<bits>``: integers times a scale that the type does not know, so any number may be one.

    QONNX uses it for signed and unsigned integers alike, so that nobody can count them.
    """

    def __init__(self, bits: int) -> None:
        if not 1 <= bits <= MOST_BITS:
            raise UsageError(f"a scaled integer cannot have {bits} bits", hint=f"give 1 to {MOST_BITS}")
        super().__init__(f"SCALEDINT<{bits}>", bits, None, None, None, bits, 0)

    def _has(self, known: Array) -> Array:
        """Return which numbers are finite: any of them may be a value at a suitable scale."""
        return np.isfinite(known)

    def fits(self, element: str) -> bool:
        """Return whether an element type is one that quantizers compute in."""
        return element in ("FLOAT", "DOUBLE")


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``."""

    low: int
    high: int

    def __post_init__(self) -> None:
        """Refuse ranges without an integer."""
        if self.low > self.high:
            raise UsageError(f"no integer lies between {self.low} and {self.high}", hint="give the smaller one first")

    def __or__(self, other: Interval) -> Interval:
        """Join: the smallest range with the integers of both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __and__(self, other: Interval) -> Interval | None:
        """Meet: the integers that are in both, if there are any."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(low, high) if low <= high else None

    def __contains__(self, other: Interval | int) -> bool:
        if isinstance(other, int):
            return self.low <= other <= self.high
        return self.low <= other.low and other.high <= self.high

    def __str__(self) -> str:
        return f"[{self.low}, {self.high}]"


_GLANCE = 256
"""Among so many elements of weights that are no integers one is found that is none."""


def smallest_for(low: int, high: int, *, narrow: bool = False, bipolar: bool = False) -> IntegerType:
    """Return the integer type of fewest bits with all integers from ``low`` to ``high``, unsigned where possible.

    ``narrow`` leaves the most negative value of a type unused, so that the opposite of each value is one, too;
    ``bipolar`` says that between -1 and 1 there is no 0.
    """
    if low > high:
        raise UsageError(f"no integer lies between {low} and {high}", hint="give the smaller one first")
    if low >= 0:
        return Integer(max(high.bit_length(), 1), is_signed=False)
    if (low, high) == (-1, -1) or (bipolar and (low, high) == (-1, 1)):
        return BIPOLAR
    if (low, high) == (-1, 1) or (narrow and low == -1 and high <= 1):
        return TERNARY
    furthest = max(-low if narrow else -low - 1, high)
    return Integer(furthest.bit_length() + 1, is_signed=True)


def smallest_for_values(array: Array) -> DataType:
    """Return the smallest type with all elements of an array: ``FLOAT32`` unless all of them are integers."""
    ends = integer_ends(array)
    if ends is None:
        return FLOAT32
    return smallest_for(*ends, bipolar=ends == (-1, 1) and bool((array != 0).all()))


def smallest_for_both(a: DataType, b: DataType) -> DataType:
    """Return the smallest type with the values of both: ``FLOAT32`` unless all are integers, or have fixed points."""
    if a == b:
        return a
    known = [datatype for datatype in (a, b) if isinstance(datatype, IntegerType | FixedPoint)]
    if len(known) < 2:
        return FLOAT32
    fraction_bits = -min(datatype.finest for datatype in known)
    low = int(min(datatype.min for datatype in known) * 2**fraction_bits)
    high = int(max(datatype.max for datatype in known) * 2**fraction_bits)
    if fraction_bits == 0:
        return smallest_for(low, high)
    bits = max(-low - 1, high, 0).bit_length() + 1
    return FixedPoint(bits, bits - fraction_bits)


def range_of(datatype: DataType) -> Interval | None:
    """Return the integers between the ends of an integer type; None for other types."""
    return Interval(datatype.min, datatype.max) if isinstance(datatype, IntegerType) else None


def integer_ends(array: Array) -> tuple[int, int] | None:
    """Return the smallest and the largest element as exact integers; nothing unless all elements are integers."""
    known = numbers(array)
    if known is None:
        return None
    if known.size == 0:
        return 0, 0
    if known.dtype.kind == "f" and not bool(whole(known.reshape(-1)[:_GLANCE]).all()):
        return None
    low, high = known.min(), known.max()
    if known.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high) and bool(whole(known).all())):
        return None
    return int(low), int(high)


_NAMED: dict[str, DataType] = {
    str(datatype): datatype for datatype in (BINARY, BIPOLAR, TERNARY, FLOAT16, FLOAT32, FLOAT64, BFLOAT16)
}
_NUMBERED = re.compile(r"(U?INT) ?([0-9]{1,5})")
_BRACKETED = re.compile(r"(FIXED|SCALEDINT|FLOAT)<([^<>]*)>")
_NUMBER = re.compile(r"\s*-?[0-9]{1,5}\s*")
_EXAMPLES = ("INT4", "INT8", "UINT4", "UINT8", "FIXED<8,4>", "FLOAT<4,3>", "SCALEDINT<8>", *_NAMED)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> DataType:
    """Return the data type of a name such as ``INT4``, ``BIPOLAR``, ``FIXED<8,4>`` or ``FLOAT<4,3>``.

    As in QONNX, ``UINT1`` is ``BINARY``, and a float without a bias, or with the bias 0, has the usual one.
    """
    stripped = text.strip()
    if stripped in _NAMED:
        return _NAMED[stripped]
    numbered, bracketed = _NUMBERED.fullmatch(stripped), _BRACKETED.fullmatch(stripped)
    if numbered is not None:
        return Integer(int(numbered[2]), is_signed=numbered[1] == "INT")
    found = None if bracketed is None else _bracketed(bracketed[1], bracketed[2].split(","))
    if found is not None:
        return found
    raise UsageError(f"there is no data type '{text[:60]}'", hint=_hint(stripped))


def _bracketed(family: str, parts: list[str]) -> DataType | None:
    numbers = [int(part) for part in parts if _NUMBER.fullmatch(part)]
    if len(numbers) != len(parts):
        return None
    match family, numbers:
        case "FIXED", [bits, integer_bits]:
            return FixedPoint(bits, integer_bits)
        case "SCALEDINT", [bits]:
            return ScaledInteger(bits)
        case "FLOAT", [exponent_bits, mantissa_bits, *bias] if len(bias) < 2:
            usual = (1 << max(exponent_bits - 1, 0)) - 1
            return MiniFloat(exponent_bits, mantissa_bits, bias[0] if bias and bias[0] else usual)
        case _:
            return None


def _hint(text: str) -> str:
    upper = text.upper()
    if upper != text and len(upper) < 60:
        try:
            return f"did you mean '{parse(upper)}'?"
        except UsageError:
            pass
    return did_you_mean(text[:60], _EXAMPLES) or (
        "known are BINARY, BIPOLAR, TERNARY, INT<n>, UINT<n>, FIXED<n,i>, FLOAT<e,m>, SCALEDINT<n>, FLOAT16, FLOAT32"
    )
