"""Constants as fixed-point numbers: integers times a power of two, which costs no hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant
from onnx_passes.graph.edits import copy_type_and_shape
from onnx_passes.passes.qonnx.dialect import GENERAL

MOST_BITS = 16
"""Constants with more bits get the default precision of the tool chain."""
_MANTISSA = 53


@dataclass(frozen=True, eq=False)
class FixedPointArray:
    """``integers * 2**exponent``."""

    integers: np.ndarray
    exponent: int

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Return the fixed-point form with the largest exponent; None if it needs too many bits."""
        wide = np.asarray(array, np.float64)
        if not np.isfinite(wide).all():
            return None
        fractions, exponents = np.frexp(wide[wide != 0])
        mantissas = np.ldexp(fractions, _MANTISSA).astype(np.int64)
        # The lowest set bit is the largest possible shift of each number.
        shifts = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
        exponent = int((exponents - _MANTISSA + shifts).min(initial=2**31 - 1)) if mantissas.size else 0
        made = cls(np.ldexp(wide, -exponent), exponent)
        return made if made.bits <= MOST_BITS else None

    @property
    def signed(self) -> bool:
        """Return whether there are negative numbers."""
        return bool((self.integers < 0).any())

    @property
    def bits(self) -> int:
        """Return the least number of bits that hold the integers; a single signed bit would mean -1 or 1."""
        low, high = self.integers.min(initial=0), self.integers.max(initial=0)
        return max(int(max(-low - 1, high)).bit_length() + self.signed, 1 + self.signed)

    @property
    def array(self) -> np.ndarray:
        """Return the numbers."""
        return np.ldexp(self.integers, self.exponent).astype(np.float32)

    def quantizer(self, op: Builder, name: str) -> ir.Value:
        """Build a quantizer that keeps the numbers, and states the number of bits."""
        parameters = {"scale": 2.0**self.exponent, "zero_point": 0, "bits": self.bits}
        made = op.Quant(
            (held := op.initializer(self.array, name)),
            *(op.initializer(np.array(part, np.float32), f"{name}_{word}") for word, part in parameters.items()),
            signed=int(self.signed),
            narrow=0,
            rounding_mode="ROUND",
            _domain=GENERAL,
        )
        copy_type_and_shape(held, made)
        return made

    def is_written_in(self, value: ir.Value | None) -> bool:
        """Return whether a value is this quantizer already."""
        node = None if value is None else value.producer()
        if node is None or (node.domain, node.op_type) != (GENERAL, "Quant"):
            return False
        held = [constant(each) for each in node.inputs]
        wanted = (self.array, 2.0**self.exponent, 0, self.bits)
        return node.attributes.get_int("signed", 1) == self.signed and all(
            have is not None and np.array_equal(have, want) for have, want in zip(held, wanted, strict=True)
        )
