"""The algebra of fingerprints: an element is a random-looking number of 64 bits for what it is computed from.

Equal fingerprints mean equal terms, but for a chance of about n²/2⁶⁵ among n elements; fingerprints of different
seeds are independent. All of it is vectorised: a node costs a few operations of numpy, whatever its size.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.traits import traits_of
from onnx_passes.numbers.algebra import Algebra, Symbol

Labels = np.ndarray[Any, np.dtype[np.uint64]]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_A, _B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Fingerprints(Algebra):
    """Elements are fingerprints; operands of commutative functions may be swapped, nothing else is known of any."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = mix(np.array(seed + 1, np.uint64) * _GOLDEN)

    def variable(self, name: str, dtype: ir.DataType, shape: Sequence[int]) -> Labels:
        """Return a fingerprint of name and place for each element."""
        start = self.of_text(f"{name}:{int(dtype)}")
        with np.errstate(over="ignore"):
            return mix(start + np.arange(int(np.prod(shape)), dtype=np.uint64) * _GOLDEN).reshape(tuple(shape))

    def constant(self, dtype: ir.DataType, array: np.ndarray) -> Labels:
        """Return fingerprints of bits."""
        start = self.of_text(f"constant:{int(dtype)}")
        if array.dtype == object:
            texts = [zlib.crc32(str(text).encode()) for text in array.reshape(-1).tolist()]
            bits = np.array(texts, np.uint64).reshape(array.shape)
        else:
            array = array.astype(dtype.numpy(), copy=False)
            bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}").reshape(array.shape)
            if array.dtype.kind not in "biu":
                bits = np.where(array == array, bits, np.array(np.nan).astype(array.dtype).view(bits.dtype))
        with np.errstate(over="ignore"):
            return mix(start ^ mix(bits.astype(np.uint64) * _GOLDEN))

    def scalar(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> Labels:
        """Combine the fingerprints of operands; those of a commutative function in any order."""
        start = self.of_text(repr(symbol))
        if len(operands) == 2 and traits_of(symbol.name).commutative and symbol.name not in ("Max", "Min"):
            a, b = np.broadcast_arrays(*operands)
            operands = [np.minimum(a, b), np.maximum(a, b)]
        total = start
        with np.errstate(over="ignore"):
            for operand in operands:
                total = mix(total * _A + operand)
        return np.asarray(total, np.uint64)

    def sequence(self, symbol: Symbol, operands: Sequence[np.ndarray]) -> Labels:
        """Combine sequences in their order; factors of products commute."""
        if symbol.name in ("Dot", "Gemm"):
            left, right, *bias = operands
            with np.errstate(over="ignore"):
                operands = [mix(np.minimum(left, right) * _A + np.maximum(left, right)), *bias]
        start = self.of_text(repr(symbol))
        length = operands[0].shape[-1]
        if length == 1 and symbol.name in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"):
            return operands[0][..., 0]
        with np.errstate(over="ignore"):
            # A polynomial in random weights: as good as mixing one by one, but in one pass.
            total = np.full(operands[0].shape[:-1], start + np.uint64(length))
            for number, operand in enumerate(operands):
                weights = mix(start + (np.arange(length, dtype=np.uint64) + np.uint64(1 + number * length)) * _GOLDEN)
                total = total + (mix(operand ^ weights) * (weights | np.uint64(1))).sum(-1, dtype=np.uint64)
            return mix(total)

    def opaque(self, symbol: Symbol, operands: Sequence[np.ndarray], shape: Sequence[int]) -> Labels:
        """Combine all operands to one fingerprint, and that with each place."""
        sequences = [operand.reshape(-1) for operand in operands]
        start = self.of_text(repr(symbol))
        with np.errstate(over="ignore"):
            for sequence in sequences:
                plain = symbol._replace(name=f"opaque {symbol.name}")
                folded = self.sequence(plain, [sequence]) if sequence.size > 1 else sequence.sum(dtype=np.uint64)
                start = mix(start * _A + folded)
            return mix(start + np.arange(int(np.prod(shape)), dtype=np.uint64) * _GOLDEN).reshape(tuple(shape))

    def of_text(self, text: str) -> np.uint64:
        """Return the fingerprint of a name."""
        data = text.encode()
        with np.errstate(over="ignore"):
            both = np.array((zlib.crc32(data) << 32) | zlib.adler32(data), np.uint64)
            return mix(self._seed ^ mix(both))


def mix(bits: Any) -> Any:
    """Scatter bits (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * _A
        bits = (bits ^ (bits >> np.uint64(27))) * _B
        return bits ^ (bits >> np.uint64(31))
