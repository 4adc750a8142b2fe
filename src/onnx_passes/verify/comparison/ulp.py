"""Where the elements of two tensors differ and how far: absolute, relative, and in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum, auto
from fractions import Fraction
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes.base import EXACT_IN_DOUBLE

Array = NDArray[Any]

# Long enough that numpy's overhead per call vanishes, short enough that all temporaries stay in the cache.
_CHUNK = 1 << 17
_PARTS = {"complex128": "float64", "complex64": "float32", "complex32": "float16", "bcomplex32": "bfloat16"}


class Kind(Enum):
    """How elements of a data type are compared."""

    FLOAT = auto()
    COMPLEX = auto()
    INTEGER = auto()
    BOOL = auto()
    STRING = auto()


def kind_of(dtype: np.dtype[Any]) -> Kind:
    """Tell how elements of a data type are compared; types that no tensor of a model has are an error."""
    name = dtype.name
    if dtype.kind in "OUST":
        return Kind.STRING
    if name == "bool":
        return Kind.BOOL
    if name in _PARTS:
        return Kind.COMPLEX
    if name.startswith(("float", "bfloat")) and dtype.itemsize <= 8:
        return Kind.FLOAT
    if name.startswith(("int", "uint")):
        return Kind.INTEGER
    raise UsageError(f"elements of type {name} cannot be compared", hint="convert them to a data type of ONNX")


def ordered(values: Array) -> NDArray[np.int64]:
    """Map floats to integers in the same order, neighbours to neighbours and both zeros to zero; NaN has no place."""
    bits, dtype = _bits(values), values.dtype
    if dtype.name == "float8_e8m0fnu":
        return bits.astype(np.int64)
    width = _width(dtype)
    sign = bits.dtype.type(1 << (width - 1))
    if width == 8 * bits.itemsize:
        # All ones where the sign is set, with which the magnitude is negated: in the width of the type, that is quick.
        magnitude, negative = (bits & ~sign).view(f"i{bits.itemsize}"), bits.view(f"i{bits.itemsize}") >> (width - 1)
        return ((magnitude ^ negative) - negative).astype(np.int64)
    wide: NDArray[np.int64] = (bits & ~sign).astype(np.int64)
    return np.where((bits & sign) != 0, -wide, wide)


def ulp_distance(a: Array, b: Array) -> NDArray[np.uint64]:
    """Count the steps from float to float between elements of the same data type."""
    return _distance(ordered(a), ordered(b))


class Differences:
    """The elements that differ in a part of two tensors; nothing more is known of booleans and strings.

    Where NaN or an infinity stands against anything else, the distance is infinite; in units in the last place it is
    the number of all bit patterns, which is more than any two numbers are apart.
    """

    nan = 0
    infinite = 0
    signed_zeros = 0
    abs: Array | None = None
    rel: NDArray[np.float64] | None = None

    def __init__(self, places: NDArray[np.intp]) -> None:
        self.places = places

    def ulp(self, at: int | None = None) -> int | None:
        """Return the distance of one of the differing elements, or the greatest, in units in the last place."""
        return None

    def within(self, atol: float, rtol: float) -> bool:
        """Return whether every distance is at most ``atol + rtol * |expected|``."""
        return not self.places.size


class IntegerDifferences(Differences):
    """Integers that differ; their distance is exact."""

    def __init__(self, places: NDArray[np.intp], expected: Array, found: Array) -> None:
        super().__init__(places)
        self._distance, self._magnitude = _distance(expected, found), _magnitude(expected)
        self.abs = self._distance
        with np.errstate(divide="ignore"):
            self.rel = self._distance / self._magnitude.astype(np.float64)

    def within(self, atol: float, rtol: float) -> bool:
        """Return whether every distance is at most ``atol + rtol * |expected|``, without losing a bit of big ones."""
        if rtol == 0:
            limit = min(math.floor(atol), 2**64 - 1)
            return bool((self._distance <= np.uint64(limit)).all())
        small = (self._distance < EXACT_IN_DOUBLE) & (self._magnitude < EXACT_IN_DOUBLE)
        with np.errstate(over="ignore"):
            bound = atol + rtol * self._magnitude[small].astype(np.float64)
        if (self._distance[small] > bound).any():
            return False
        least, share = Fraction(atol), Fraction(rtol)
        big = zip(self._distance[~small].tolist(), self._magnitude[~small].tolist(), strict=True)
        return all(distance <= least + share * magnitude for distance, magnitude in big)


class FloatDifferences(Differences):
    """Real or complex numbers that differ: one row for each element, one column for each part."""

    def __init__(self, places: NDArray[np.intp], expected: Array, found: Array) -> None:
        super().__init__(places)
        self._native = expected, found
        with np.errstate(invalid="ignore"):
            self._expected, self._found = expected.astype(np.float64), found.astype(np.float64)
        a, b = self._expected, self._found
        if a.shape[1] == 1 and np.isfinite(a).all() and np.isfinite(b).all():
            self._compare_finite(a, b)
            return
        self._same = (a == b) | (np.isnan(a) & np.isnan(b))
        against_nan = (np.isnan(a) != np.isnan(b)).any(axis=1)
        against_infinity = (~self._same & (np.isinf(a) | np.isinf(b))).any(axis=1) & ~against_nan
        self._apart = against_nan | against_infinity
        self.nan, self.infinite = int(against_nan.sum()), int(against_infinity.sum())
        self.signed_zeros = int(self._same.all(axis=1).sum())
        self.abs = np.where(self._apart, np.inf, self._distance(1.0))
        self.rel = self._relative(self.abs)

    def _compare_finite(self, a: Array, b: Array) -> None:
        """Do the same for the usual case, in a fraction of the time."""
        self._same = a == b
        self._apart = np.zeros(len(a), bool)
        self.nan = self.infinite = 0
        self.signed_zeros = int(self._same.sum())
        with np.errstate(all="ignore"):
            self.abs = np.abs((b - a).reshape(-1))
        if np.isinf(self.abs.max()):
            self.rel = self._relative(self.abs)
            return
        with np.errstate(all="ignore"):
            self.rel = self.abs / np.abs(a.reshape(-1))
        if self.signed_zeros:
            self.rel[self._same.reshape(-1)] = 0.0

    def ulp(self, at: int | None = None) -> int | None:
        """Return the distance of one of the differing elements, or the greatest, in units in the last place."""
        rows = slice(None) if at is None else slice(at, at + 1)
        if self._expected.shape[1] > 1:
            return None
        if self._apart[rows].any():
            return 1 << _width(self._native[0].dtype)
        return int(ulp_distance(self._native[0][rows], self._native[1][rows]).max())

    def within(self, atol: float, rtol: float) -> bool:
        """Return whether every distance is at most ``atol + rtol * |expected|``; NaN and infinities must agree."""
        if self._apart.any():
            return False
        distance, magnitude = cast(Array, self.abs), self._magnitude(1.0)
        with np.errstate(over="ignore"):
            near = distance <= atol + rtol * magnitude
            if np.isinf(distance).any():
                # A quarter of a difference is never too great for a float64.
                quarter = self._distance(0.25) <= atol * 0.25 + rtol * self._magnitude(0.25)
                near = np.where(np.isinf(distance), quarter, near)
        return bool(near.all())

    def _relative(self, distance: Array) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            rel = distance / self._magnitude(1.0)
            if np.isinf(distance).any():
                rel = np.where(np.isinf(distance), self._distance(0.25) / self._magnitude(0.25), rel)
        return np.where(self._apart, np.inf, np.where(distance == 0, 0.0, rel))

    def _distance(self, scale: float) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return _length(np.where(self._same, 0.0, self._found * scale - self._expected * scale))

    def _magnitude(self, scale: float) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            return _length(np.where(np.isfinite(self._expected), self._expected * scale, 0.0))


def chunks(expected: Array, found: Array) -> Iterator[tuple[int, Array, Array]]:
    """Cut two tensors of one shape into short flat pieces, each with its position; nothing is copied if avoidable."""
    pieces = [a.reshape(-1) if a.flags.c_contiguous else a.flat for a in (expected, found)]
    for start in range(0, expected.size, _CHUNK):
        a, b = (_native(piece[start : start + _CHUNK]) for piece in pieces)
        yield start, a, b


def all_near(expected: Array, found: Array, atol: float, rtol: float) -> bool:
    """Tell quickly whether floats are all finite and near; where they are not, ``differences`` has to decide."""
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), found.astype(np.float64)
        distance = np.abs(b - a)
        return bool(distance.max(initial=0.0) < np.inf and (distance <= atol + rtol * np.abs(a)).all())


def differences(expected: Array, found: Array, kind: Kind) -> Differences | None:
    """Find the elements that differ in two flat pieces of one data type, or nothing if they are equal."""
    if kind is Kind.STRING:
        return _different_strings(expected, found)
    # Equal bytes are equal elements, and comparing them is by far the cheapest test.
    if np.array_equal(_bytes(expected), _bytes(found)):
        return None
    if kind is Kind.BOOL:
        return _found_at(Differences, expected != found)
    if kind is Kind.INTEGER:
        wide = np.uint64 if expected.dtype.name.startswith("u") else np.int64
        a, b = expected.astype(wide), found.astype(wide)
        return _found_at(IntegerDifferences, a != b, a, b)
    if kind is Kind.COMPLEX:
        parts = np.dtype(_PARTS[expected.dtype.name])
        a, b = (np.ascontiguousarray(x).view(parts).reshape(-1, 2) for x in (expected, found))
    else:
        a, b = expected.reshape(-1, 1), found.reshape(-1, 1)
    with np.errstate(invalid="ignore"):
        nans = np.isnan(a) & np.isnan(b)
    differ = ((_bits(a) != _bits(b)) & ~nans).any(axis=1)
    return _found_at(FloatDifferences, differ, a, b)


def _found_at(cls: Callable[..., Differences], differ: NDArray[np.bool_], *values: Array) -> Differences | None:
    places = np.flatnonzero(differ)
    return cls(places, *(value[places] for value in values)) if places.size else None


def _different_strings(expected: Array, found: Array) -> Differences | None:
    pairs = zip(expected.tolist(), found.tolist(), strict=True)
    places = [place for place, (a, b) in enumerate(pairs) if a != b and text(a) != text(b)]
    return Differences(np.array(places, np.intp)) if places else None


def text(element: object) -> str:
    """Return a string element, which some libraries keep encoded."""
    return element.decode(errors="surrogateescape") if isinstance(element, bytes) else str(element)


def _native(values: Array) -> Array:
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _bytes(values: Array) -> Array:
    width = values.dtype.itemsize
    return np.ascontiguousarray(values).view(np.uint64 if width % 8 == 0 else f"u{width}")


def _bits(values: Array) -> Array:
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")
    used = _width(values.dtype)
    return bits if used % 8 == 0 else bits & bits.dtype.type((1 << used) - 1)


def _width(dtype: np.dtype[Any]) -> int:
    return cast(Any, ml_dtypes.finfo(dtype)).bits


def _distance(a: Array, b: Array) -> NDArray[np.uint64]:
    # The difference of 64-bit integers may need 65 bits with sign, but modulo 2^64 it is right once it is positive.
    return np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)


def _magnitude(values: Array) -> NDArray[np.uint64]:
    return _distance(values, np.zeros_like(values))


def _length(parts: Array) -> NDArray[np.float64]:
    return np.abs(parts[:, 0]) if parts.shape[1] == 1 else np.hypot(parts[:, 0], parts[:, 1])
