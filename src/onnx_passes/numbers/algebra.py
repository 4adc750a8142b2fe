"""Number systems in which models are evaluated: elements, functions that combine them, tensors of elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

ELEMENT = "element"
"""Picks an element of what a function makes of a sequence."""


class TooLargeError(Exception):
    """A model has more elements than the algebra is made for."""


class UnsupportedError(Exception):
    """The meaning of a node is not known well enough: sizes that depend on data, types that are no tensors."""


class Symbol(NamedTuple):
    """A function of scalars or of a sequence of them: its name, its type, those of its operands, and attributes."""

    name: str
    dtype: ir.DataType
    sources: tuple[ir.DataType, ...] = ()
    params: tuple[Any, ...] = ()


class Algebra(ABC):
    """What elements are and how they are combined.

    ``exact`` algebras tell results apart that differ in a single bit; the others compute in real numbers.
    """

    exact: bool = True
    decides: bool = False
    """Whether elements are compared and rounded as real numbers, so that quantizers need not be expanded."""
    most: int = 1 << 22
    """Elements that one tensor, or the sequences of one node, may have."""

    def afford(self, *sizes: int) -> None:
        """Raise TooLargeError if something has more elements than the algebra is made for."""
        amount = 1
        for size in sizes:
            amount *= size
        if amount > self.most:
            raise TooLargeError(f"{amount} elements, more than {self.most}")

    @abstractmethod
    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Return elements of which nothing is known but where they are."""

    @abstractmethod
    def constant(self, dtype: ir.DataType, array: np.ndarray) -> np.ndarray:
        """Return the elements of a constant."""

    @abstractmethod
    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a scalar function to operands that broadcast."""

    @abstractmethod
    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a function of the sequences along the last axis of operands of one shape: a sum, a scalar product."""

    def vector(self, symbol: Symbol, operands: Sequence[np.ndarray], length: int) -> np.ndarray:
        """Apply a function of sequences that makes another sequence of them, along the last axis."""
        whole = self.sequence(symbol, operands)
        places = self.constant(ir.DataType.INT64, np.arange(length, dtype=np.int64))
        return self.scalar(Symbol(ELEMENT, symbol.dtype, (symbol.dtype, ir.DataType.INT64)), [whole[..., None], places])

    @abstractmethod
    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Return what a function that nothing is known of makes of whole arrays."""


@dataclass(slots=True)
class Tensor:
    """A tensor in an algebra; ``known`` are its numbers where it is constant, and elements are made on demand."""

    dtype: ir.DataType
    known: np.ndarray | None = None
    made: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes."""
        array = self.made if self.known is None else self.known
        assert array is not None
        return array.shape

    def elements(self, algebra: Algebra) -> np.ndarray:
        """Return the elements."""
        if self.made is None:
            assert self.known is not None
            self.made = algebra.constant(self.dtype, self.known)
        return self.made
