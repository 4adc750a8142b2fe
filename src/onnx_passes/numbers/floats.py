"""The algebra of plain numbers, as far as all runtimes agree on them: for constants, and for counterexamples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers import scalars
from onnx_passes.numbers.algebra import Algebra, Symbol


class UnsettledError(Exception):
    """Runtimes may compute different bits here."""


class Numbers(Algebra):
    """Elements are numbers in their true type."""

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Refuse: a variable has no number."""
        raise UnsettledError(name)

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> np.ndarray:
        """Return the numbers themselves."""
        return array

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Compute functions that are rounded correctly."""
        if not scalars.is_settled(symbol, operands):
            raise UnsettledError(symbol.name)
        return scalars.compute(symbol, list(operands))

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Refuse: sums have no promised order."""
        raise UnsettledError(symbol.name)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Refuse: nothing is known of the function."""
        raise UnsettledError(symbol.name)
