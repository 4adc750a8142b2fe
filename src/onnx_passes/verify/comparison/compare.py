"""Compare results strictly: first the interface, then the values bit by bit; a tolerance is a question of its own."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.ulp import Array, Differences, Kind, all_near, chunks, differences, kind_of, text

N = TypeVar("N", int, float)
Scalar = bool | int | float | complex | str

_LINES = 10
_SCALARS: Mapping[Kind, Callable[[Any], Scalar]] = {
    Kind.FLOAT: float,
    Kind.COMPLEX: complex,
    Kind.INTEGER: int,
    Kind.BOOL: bool,
    Kind.STRING: text,
}


class TensorStatus(StrEnum):
    """What is the matter with one tensor."""

    EQUAL = "equal"
    MISSING = "missing"
    UNEXPECTED = "unexpected"
    OUT_OF_PLACE = "out of place"
    DTYPE = "dtype differs"
    SHAPE = "shape differs"
    VALUES = "values differ"


class TensorType(NamedTuple):
    """Data type and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Element:
    """One element that differs, and how far; measures that make no sense for its type are ``None``."""

    index: tuple[int, ...]
    expected: Scalar
    found: Scalar
    abs: float | None = None
    rel: float | None = None
    ulp: int | None = None


@dataclass(frozen=True)
class TensorComparison:
    """How one tensor compares with the expected one.

    ``max_abs`` and ``max_rel`` are infinite where NaN or an infinity stands against anything else, and ``max_ulp`` is
    then the number of all bit patterns. All three are ``None`` for types without such a measure and for tensors that
    cannot be compared. ``worst`` is the first element with the greatest absolute error. Arrays with different values
    are kept, not copied, so that ``within`` can be asked.
    """

    name: str
    status: TensorStatus
    expected_type: TensorType | None = None
    found_type: TensorType | None = None
    positions: tuple[int, int] | None = None
    total: int = 0
    differing: int = 0
    nan: int = 0
    infinite: int = 0
    signed_zeros: int = 0
    first: Element | None = None
    worst: Element | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    max_ulp: int | None = None
    arrays: tuple[Array, Array] | None = field(default=None, repr=False, compare=False)

    @property
    def equal(self) -> bool:
        """Return whether nothing differs."""
        return self.status is TensorStatus.EQUAL

    def within(self, atol: float = 0.0, rtol: float = 0.0) -> bool:
        """Return whether ``|found - expected| <= atol + rtol * |expected|`` holds for every element.

        Data type, shape and the places of NaN and infinities must agree, signs of zeros need not. Booleans and
        strings must be equal.
        """
        if not all(math.isfinite(bound) and bound >= 0 for bound in (atol, rtol)):
            raise UsageError(f"a tolerance of atol {atol}, rtol {rtol} is not possible", hint="give numbers from 0 up")
        if self.status is not TensorStatus.VALUES or self.arrays is None:
            return self.equal
        kind = kind_of(self.arrays[0].dtype)
        for _, a, b in chunks(*self.arrays):
            if kind is Kind.FLOAT and all_near(a, b, atol, rtol):
                continue
            part = differences(a, b, kind)
            if part is not None and not part.within(atol, rtol):
                return False
        return True

    def message(self, at: tuple[int, ...] | None = None, beyond: int | None = None) -> str:
        """Say in one sentence what differs, with the worst element as the example, or the one at an index.

        ``beyond`` is how many elements differ by more than is allowed, where some difference is.
        """
        match self.status:
            case TensorStatus.EQUAL | TensorStatus.MISSING | TensorStatus.UNEXPECTED:
                return f"{self.name}: {self.status}"
            case TensorStatus.OUT_OF_PLACE if self.positions:
                wanted, actual = self.positions
                return f"{self.name}: out of place, expected as number {wanted + 1}, found as number {actual + 1}"
            case TensorStatus.DTYPE | TensorStatus.SHAPE:
                return f"{self.name}: {self.status}, expected {self.expected_type}, found {self.found_type}"
            case _:
                return self._values_message(self.worst if at is None else self._element(at), beyond)

    def _element(self, index: tuple[int, ...]) -> Element | None:
        if self.arrays is None:
            return self.worst
        expected, found = self.arrays
        part = compare_tensor(self.name, expected[*index, None], found[*index, None]).worst
        return self.worst if part is None else replace(part, index=index)

    def _values_message(self, worst: Element | None, beyond: int | None) -> str:
        if worst is None or self.expected_type is None:
            return f"{self.name}: {self.status}"
        dtype = self.expected_type.dtype
        place = f"{self.name}[{', '.join(map(str, worst.index))}]" if worst.index else self.name
        values = f"{place}: expected {_shown(worst.expected, dtype)}, found {_shown(worst.found, dtype)}"
        share = f"{self.differing} of {_count(self.total, 'element')}"
        if self.signed_zeros == self.differing:
            return f"{values}; signed zeros differ in {share}"
        special = ((self.nan, "NaN"), (self.infinite, "infinity"), (self.signed_zeros, "signed zero"))
        kinds = ", ".join(f"{number} by {what}" for number, what in special if number)
        verb = "differs" if self.differing == 1 else "differ"
        kinds = f", {kinds}" if kinds else ""
        allowed = "" if beyond is None or beyond == self.differing else f", {beyond} by more than the tolerance"
        return f"{values}{_errors(worst)}; {share} {verb}{kinds}{allowed}"


@dataclass(frozen=True)
class Comparison:
    """How the results of a model compare with the expected ones, tensor by tensor.

    ``tensors`` are in the expected order, unexpected ones last. The maxima are over the tensors whose values could be
    compared, ``None`` if there are none.
    """

    tensors: tuple[TensorComparison, ...]

    @property
    def equal(self) -> bool:
        """Return whether interface and values are equal bit by bit."""
        return all(tensor.equal for tensor in self.tensors)

    @property
    def first(self) -> TensorComparison | None:
        """Return the first tensor that differs, in the interface before in values."""
        return next(iter(self._differing()), None)

    @property
    def max_abs(self) -> float | None:
        """Return the greatest absolute error."""
        return _greatest(tensor.max_abs for tensor in self.tensors)

    @property
    def max_rel(self) -> float | None:
        """Return the greatest error relative to the expected value."""
        return _greatest(tensor.max_rel for tensor in self.tensors)

    @property
    def max_ulp(self) -> int | None:
        """Return the greatest error in units in the last place."""
        return _greatest(tensor.max_ulp for tensor in self.tensors)

    def within(self, atol: float = 0.0, rtol: float = 0.0) -> bool:
        """Return whether the interface is the same and every tensor within the tolerance."""
        return all(tensor.within(atol, rtol) for tensor in self.tensors)

    def describe(self) -> str:
        """Say what differs, one line for each tensor, the first difference first."""
        differing = self._differing()
        if not differing:
            return f"{_count(len(self.tensors), 'tensor')} equal bit by bit"
        lines = [tensor.message() for tensor in differing[:_LINES]]
        more = len(differing) - len(lines)
        return "\n".join([*lines, f"and {_count(more, 'more tensor')}"] if more else lines)

    def _differing(self) -> list[TensorComparison]:
        differing = [tensor for tensor in self.tensors if not tensor.equal]
        return sorted(differing, key=lambda tensor: tensor.status is TensorStatus.VALUES)


def compare(expected: Mapping[str, Array], found: Mapping[str, Array]) -> Comparison:
    """Compare tensors by name, in order: number, names, order, data types, shapes, then values bit by bit.

    NaN equals NaN whatever its payload; infinities and signs of zeros count; nothing is broadcast or converted.
    Sequences are compared by length, then tensor by tensor.
    """
    places = {name: place for place, name in enumerate(name for name in found if name in expected)}
    here = 0
    tensors: list[TensorComparison] = []
    for name, array in expected.items():
        if name not in found:
            tensors.append(TensorComparison(name, TensorStatus.MISSING, _type(array)))
            continue
        if places[name] == here:
            tensors += _compare_results(name, array, found[name])
        else:
            types = _type(array), _type(found[name])
            tensors.append(TensorComparison(name, TensorStatus.OUT_OF_PLACE, *types, positions=(here, places[name])))
        here += 1
    for name, array in found.items():
        if name not in expected:
            tensors.append(TensorComparison(name, TensorStatus.UNEXPECTED, found_type=_type(array)))
    return Comparison(tuple(tensors))


def _compare_results(name: str, expected: Any, found: Any) -> list[TensorComparison]:
    """Compare two results, which are tensors, sequences of tensors, or absent optional values."""
    old, new = _sequence(expected), _sequence(found)
    if old is None and new is None:
        return [compare_tensor(name, expected, found)]
    if old is None or new is None or len(old) != len(new) or not old:
        status = TensorStatus.EQUAL if old == new == [] else TensorStatus.SHAPE
        return [TensorComparison(name, status, _type(expected), _type(found))]
    pairs = enumerate(zip(old, new, strict=True))
    return [compare_tensor(f"{name}[{place}]", first, second) for place, (first, second) in pairs]


def _sequence(result: Any) -> list[Any] | None:
    """Return the tensors of a sequence, none of an absent optional value; None for a tensor."""
    if result is None:
        return []
    return cast("list[Any]", result) if isinstance(result, list) else None


def compare_tensor(name: str, expected: Array, found: Array) -> TensorComparison:
    """Compare two tensors: data type, shape, then values bit by bit."""
    expected, found = np.asarray(expected), np.asarray(found)
    types = _type(expected), _type(found)
    if types[0].dtype != types[1].dtype:
        return TensorComparison(name, TensorStatus.DTYPE, *types)
    if types[0].shape != types[1].shape:
        return TensorComparison(name, TensorStatus.SHAPE, *types)
    kind = kind_of(expected.dtype)
    tally = _Tally(expected, found, kind)
    for start, a, b in chunks(expected, found):
        part = differences(a, b, kind)
        if part is not None:
            tally.add(start, part)
    return TensorComparison(
        name,
        TensorStatus.VALUES if tally.differing else TensorStatus.EQUAL,
        *types,
        total=expected.size,
        differing=tally.differing,
        nan=tally.nan,
        infinite=tally.infinite,
        signed_zeros=tally.signed_zeros,
        first=tally.first,
        worst=tally.worst,
        max_abs=tally.max_abs,
        max_rel=tally.max_rel,
        max_ulp=tally.max_ulp,
        arrays=(expected, found) if tally.differing else None,
    )


class _Tally:
    """Sums and maxima over the pieces of two tensors."""

    def __init__(self, expected: Array, found: Array, kind: Kind) -> None:
        self._expected, self._found, self._scalar = expected, found, _SCALARS[kind]
        self.differing = self.nan = self.infinite = self.signed_zeros = 0
        self.first: Element | None = None
        self.worst: Element | None = None
        numeric = kind in (Kind.FLOAT, Kind.COMPLEX, Kind.INTEGER)
        self.max_abs: float | None = 0 if kind is Kind.INTEGER else 0.0 if numeric else None
        self.max_rel: float | None = 0.0 if numeric else None
        self.max_ulp: int | None = 0 if kind is Kind.FLOAT else None

    def add(self, start: int, part: Differences) -> None:
        """Add what was found in the piece that begins at a flat position."""
        self.differing += part.places.size
        self.nan += part.nan
        self.infinite += part.infinite
        self.signed_zeros += part.signed_zeros
        if self.first is None:
            self.first = self.worst = self._element(start, part, 0)
        if part.abs is None or part.rel is None:
            return
        at = int(part.abs.argmax())
        greatest: float = part.abs[at].item()
        if self.worst is None or self.worst.abs is None or greatest > self.worst.abs:
            self.worst = self._element(start, part, at)
        self.max_abs = _greatest((self.max_abs, greatest))
        self.max_rel = _greatest((self.max_rel, float(part.rel.max())))
        self.max_ulp = _greatest((self.max_ulp, part.ulp()))

    def _element(self, start: int, part: Differences, at: int) -> Element:
        flat = start + int(part.places[at])
        index = tuple(int(i) for i in np.unravel_index(flat, self._expected.shape))
        return Element(
            index,
            self._scalar(self._expected[index]),
            self._scalar(self._found[index]),
            None if part.abs is None else part.abs[at].item(),
            None if part.rel is None else float(part.rel[at]),
            part.ulp(at),
        )


def _type(array: Any) -> TensorType:
    sequence = _sequence(array)
    if sequence is not None:
        return TensorType("sequence", (len(sequence),))
    array = np.asarray(array)
    dtype = "string" if kind_of(array.dtype) is Kind.STRING else array.dtype.name
    return TensorType(dtype, array.shape)


def _greatest(values: Iterable[N | None]) -> N | None:
    return max((value for value in values if value is not None), default=None)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _errors(element: Element) -> str:
    if element.abs is None or element.rel is None or math.isinf(min(element.abs, element.rel)):
        return ""
    distance = element.abs if isinstance(element.abs, int) else f"{element.abs:.6g}"
    return f" (abs {distance}, rel {element.rel:.6g}" + (f", {element.ulp} ulp)" if element.ulp is not None else ")")


def _shown(value: Scalar, dtype: str) -> str:
    """Write a value as short as its data type allows without hiding a difference."""
    if isinstance(value, str):
        return reprlib.repr(value)
    if isinstance(value, float) and dtype in ("float16", "float32"):
        return str(np.dtype(dtype).type(value))
    if isinstance(value, float) and dtype != "float64":
        return str(float(f"{value:.5g}"))
    return str(value)
