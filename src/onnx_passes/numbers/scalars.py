"""What scalar functions compute, in numpy and in the true type of their operands.

Those that are ``settled`` have one result that every runtime agrees on, bit by bit: they are rounded correctly, or
do not round at all. Others, such as ``Exp``, are only approximated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnx_passes.graph.operators import Interface
from onnx_passes.numbers.rings import Symbol

Compute = Callable[..., np.ndarray]
Undefined = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Scalar:
    """A scalar function: what it computes, given the symbol and its operands, and whether all runtimes agree.

    ``undefined`` tells for which operands they do not all the same.
    """

    compute: Compute
    settled: bool = True
    undefined: Undefined | None = None


SCALARS: Interface[Scalar] = Interface(
    "scalar",
    "the scalar function that it applies to each element, for proofs",
    "onnx_passes.numbers.scalar_arithmetic",
    "onnx_passes.numbers.scalar_activations",
)


def compute(symbol: Symbol, operands: list[np.ndarray]) -> np.ndarray:
    """Compute a scalar function; the result has the type that the symbol says."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None:
        raise KeyError(symbol.name)
    with np.errstate(all="ignore"):
        result: Any = scalar.compute(symbol, *operands)
        return np.asarray(result).astype(symbol.dtype.numpy(), copy=False)


def is_known(symbol: Symbol) -> bool:
    """Tell whether it is known what a scalar function computes."""
    return SCALARS.get(("", symbol.name)) is not None


def is_settled(symbol: Symbol, operands: Sequence[np.ndarray] | None = None) -> bool:
    """Tell whether every runtime computes the same bits, of given operands or of all."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None or not scalar.settled:
        return False
    return operands is None or not bool(np.any(undefined(symbol, operands)))


def undefined(symbol: Symbol, operands: Sequence[np.ndarray]) -> np.ndarray:
    """Tell for which operands runtimes may differ: division by zero, casts out of range, the larger of two zeros."""
    scalar = SCALARS.get(("", symbol.name))
    if scalar is None or scalar.undefined is None:
        return np.zeros((), bool)
    with np.errstate(all="ignore"):
        return scalar.undefined(symbol, *operands)
