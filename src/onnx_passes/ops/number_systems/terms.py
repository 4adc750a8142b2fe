"""The bit-exact algebra: elements are terms, each there once, so that equal numbers mean equal values.

A term is a symbol and the terms that it is applied to; it is known by its number in a table that both models of a
proof share. Before a term is entered it is brought into a normal form, by lemmas that hold bit by bit in the true type
(``lemmas.py``). All NaN are one; infinities, signs of zeros and rounding are told apart.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Algebra, Symbol, TooLargeError
from onnx_passes.ops.number_systems import scalars
from onnx_passes.ops.number_systems.lemmas import LEMMAS, SEQUENCES

VARIABLE, CONSTANT, CALL = "variable", "constant", "call"
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Terms(Algebra):
    """A table of terms; ``flags`` of fast math allow lemmas that hold only under them."""

    def __init__(self, *, most: int = 400_000, flags: Iterable[str] = ()) -> None:
        self.symbols: list[Symbol] = []
        self.args: list[tuple[int, ...]] = []
        self.constants: dict[int, np.ndarray] = {}
        self.polynomials: dict[int, dict[tuple[int, ...], int]] = {}
        self.assumed: set[str] = set()
        self.flags = frozenset(flags)
        self.most = most
        self.signless: dict[ir.DataType, dict[int, tuple[int, bool]]] = {}
        """Terms without their signs, of products of a type, and whether they had one."""
        self._numbers: dict[tuple[Any, ...], int] = {}

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> np.ndarray:
        """Return a variable for each element."""
        size = int(np.prod(shape))
        found = [self.intern(Symbol(VARIABLE, dtype, (), (name, index)), ()) for index in range(size)]
        return np.array(found, np.int64).reshape(shape)

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> np.ndarray:
        """Return constants, known by their bits; all NaN are one."""
        if array.dtype == object or dtype is ir.DataType.STRING:
            ids = [self.intern(Symbol(CONSTANT, dtype, (), (text,)), ()) for text in array.reshape(-1).tolist()]
            return np.array(ids, np.int64).reshape(array.shape)
        self.afford(array.size)
        if array.size == 1:
            return np.array(self.number(dtype, array.reshape(())), np.int64).reshape(array.shape)
        array = np.ascontiguousarray(array.astype(dtype.numpy(), copy=False)).reshape(array.shape)
        bits, inverse = np.unique(_bits(array), return_inverse=True)
        numbers = zip(bits.tolist(), bits.view(array.dtype), strict=True)
        ids = np.array([self._known(dtype, known, value) for known, value in numbers], np.int64)
        return ids[inverse].reshape(array.shape)

    def number(self, dtype: ir.DataType, value: Any) -> int:
        """Return the term of one number."""
        array = np.asarray(value).astype(dtype.numpy(), copy=False).reshape(())
        return self._known(dtype, int(_bits(array).reshape(-1)[0]), array)

    def _known(self, dtype: ir.DataType, bits: int, value: Any) -> int:
        """Return the term of one number, known by its bits."""
        key = (CONSTANT, dtype, bits)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._enter(Symbol(CONSTANT, dtype, (), (bits,)), ())
            self.constants[found] = np.asarray(value)
        return found

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a scalar function to each element."""
        operands = np.broadcast_arrays(*operands)
        memo: dict[tuple[int, ...], int] = {}
        result: list[int] = []
        for args in zip(*(operand.ravel().tolist() for operand in operands), strict=True):
            found = memo.get(args)
            if found is None:
                found = memo[args] = self.make(symbol, args)
            result.append(found)
        return np.array(result, np.int64).reshape(operands[0].shape)

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
        """Apply a function of sequences, in their order."""
        shape, length = operands[0].shape[:-1], operands[0].shape[-1]
        self.afford(operands[0].size, len(operands))
        rows = [operand.reshape(-1, length).tolist() for operand in operands]
        lemma = SEQUENCES.get(symbol.name)
        result: list[int] = []
        for sequences in zip(*rows, strict=True):
            found = None if lemma is None else lemma(self, symbol, sequences)
            result.append(self.intern(symbol, tuple(i for s in sequences for i in s)) if found is None else found)
        return np.array(result, np.int64).reshape(shape)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> np.ndarray:
        """Return an element of one common call for each place."""
        args = tuple(index for operand in operands for index in operand.reshape(-1).tolist())
        call = self.intern(Symbol(CALL, symbol.dtype, symbol.sources, (symbol.name, symbol.params)), args)
        size = int(np.prod(shape))
        ids = [self.intern(Symbol(symbol.name, symbol.dtype, (), (index,)), (call,)) for index in range(size)]
        return np.array(ids, np.int64).reshape(shape)

    def make(self, symbol: Symbol, args: tuple[int, ...]) -> int:
        """Return the normal form of a symbol applied to terms."""
        constants = self.constants
        if all(arg in constants for arg in args):
            operands = [constants[arg] for arg in args]
            if scalars.is_settled(symbol, operands):
                return self.number(symbol.dtype, scalars.compute(symbol, operands))
        lemma = LEMMAS.get(symbol.name)
        found = None if lemma is None else lemma(self, symbol, args)
        return self.intern(symbol, args) if found is None else found

    def intern(self, symbol: Symbol, args: tuple[int, ...]) -> int:
        """Return the number of a term as it is written."""
        key = (symbol, args)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = self._enter(symbol, args)
        return found

    def _enter(self, symbol: Symbol, args: tuple[int, ...]) -> int:
        if len(self.symbols) >= self.most:
            raise TooLargeError(f"more than {self.most} terms")
        self.symbols.append(symbol)
        self.args.append(args)
        return len(self.symbols) - 1

    def below(self, *roots: int, leaves: Container[int] = ()) -> list[int]:
        """List all terms that some consist of, operands first; nothing below ``leaves``."""
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            term = stack.pop()
            if term not in seen:
                seen.add(term)
                if term not in leaves:
                    stack.extend(self.args[term])
        # Operands are entered before what is made of them.
        return sorted(seen)


def _bits(array: np.ndarray) -> np.ndarray:
    """Return the bits of numbers as unsigned integers, all NaN alike."""
    bits = np.ascontiguousarray(array).reshape(-1).view(_BITS[array.dtype.itemsize])
    if array.dtype.kind in "biu":
        return bits
    with np.errstate(all="ignore"):
        nan = array.reshape(-1) != array.reshape(-1)
    if nan.any():
        one = np.array([np.nan]).astype(array.dtype).view(bits.dtype)[0]
        bits = np.where(nan, one, bits)
    return bits
