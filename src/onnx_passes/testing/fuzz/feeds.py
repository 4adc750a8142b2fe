"""Data for a case: exact integers, ordinary numbers, special ones, overridden defaults, other sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.tensor_types import integer_limits
from onnx_passes.testing.fuzz.build import ModelInput
from onnx_passes.testing.fuzz.case import Arrays, Case
from onnx_passes.testing.fuzz.values import Shape, convert, special_floats, strings

GIVEN = "given"
SMALL, NORMAL, SPECIAL, OVERRIDDEN, OTHER_SIZES = "small integers", "normal", "special", "overridden", "other sizes"
ORDINARY = (GIVEN, SMALL, NORMAL)
"""Data of the declared sizes, without special numbers."""

_SMALLEST_LARGE = 16


@dataclass(frozen=True)
class Feed:
    """One set of data, and its properties."""

    name: str
    arrays: Arrays

    @property
    def is_exact(self) -> bool:
        """Return whether arithmetic on the data hardly rounds."""
        return self.name in (SMALL, OVERRIDDEN, OTHER_SIZES) or (
            self.name == GIVEN and all(map(_is_small, self.arrays.values()))
        )


def feeds_of(case: Case) -> list[Feed]:
    """Generate the data of a case, the simplest first."""
    if case.given is not None:
        return [Feed(GIVEN, case.given)]
    names = [SMALL, NORMAL, SPECIAL]
    if any(item.overridable for item in case.inputs):
        names.append(OVERRIDDEN)
    if case.other_shapes:
        names.append(OTHER_SIZES)
    return [Feed(name, _feed(case, name)) for name in names]


def _is_small(array: np.ndarray) -> bool:
    """Return whether an array of floats only has small integers; True for other types."""
    if array.dtype == object or array.dtype.kind in "biu":
        return True
    wide = array.astype(np.float64)
    return bool(((np.abs(wide) <= _SMALLEST_LARGE) & (wide == np.rint(wide))).all())


def _feed(case: Case, name: str) -> Arrays:
    arrays: Arrays = {}
    for number, item in enumerate(case.inputs):
        random = np.random.default_rng([case.seed, len(name), number])
        if item.overridable:
            if name == OVERRIDDEN:
                arrays[item.name] = _array(item, SMALL, item.shape, random, divides=case.divides)
        elif item.values is not None:
            arrays[item.name] = item.values
        else:
            shape = case.other_shapes.get(item.name, item.shape) if name == OTHER_SIZES else item.shape
            arrays[item.name] = _array(item, name, shape, random, divides=case.divides)
    return arrays


def _array(item: ModelInput, name: str, shape: Shape, random: np.random.Generator, *, divides: bool) -> np.ndarray:
    dtype = item.dtype
    if dtype is ir.DataType.STRING:
        return strings(random, shape)
    if dtype is ir.DataType.BOOL:
        return np.asarray(random.integers(2, size=shape)).astype(bool)
    if item.at_most is not None:
        return np.asarray(random.integers(0, item.at_most + 1, shape)).astype(dtype.numpy())
    if dtype.is_integer():
        return _integers(dtype, name, shape, random, divides=divides)
    if name == NORMAL:
        return convert(random.standard_normal(shape), dtype)
    if name == SPECIAL:
        values = np.resize(random.permutation(np.array(special_floats(dtype))), shape)
        if values.size and random.integers(2):
            # The special value that most rules forget, and that small arrays would rarely contain.
            values.reshape(-1)[random.integers(values.size)] = -0.0
        return convert(values, dtype)
    return convert(np.asarray(random.integers(-3, 5, shape), np.float64), dtype)


def _integers(dtype: ir.DataType, name: str, shape: Shape, random: np.random.Generator, *, divides: bool) -> np.ndarray:
    low, high = integer_limits(dtype)
    if name == SPECIAL:
        pool = [high, high - 1, high // 2 + 1, 1, 2, *(() if divides else (low, low + 1, 0))]
        return np.array([int(pool[i]) for i in random.integers(len(pool), size=shape).flat], dtype.numpy()).reshape(
            shape
        )
    if name == NORMAL and dtype.bitwidth <= 32:
        numbers = random.integers(low // 2, high // 2, shape, endpoint=True)
    else:
        numbers = random.integers(max(low, -3), 5, shape)
    if divides:
        numbers = np.where(np.isin(numbers, (0, -1)), 3, numbers)
    return np.asarray(numbers).astype(dtype.numpy())
