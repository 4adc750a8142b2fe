"""Normalizations and sorting: functions that make a sequence of each sequence along some axes.

Runtimes compute them in ways of their own, so that bit by bit nothing more is known of them; in real numbers they are
what the standard says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.proofs.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.proofs.meaning import MEANINGS, Call


def _grouped(
    call: Call, name: str, axes: Sequence[int], others: Sequence[np.ndarray] = (), params: tuple[Any, ...] = ()
) -> Tensor:
    """Apply a function to the sequences along some axes of the first input, and those of others that broadcast."""
    x = call.tensor(0)
    arrays = np.broadcast_arrays(x.elements(call.algebra), *others)
    if arrays[0].shape != x.shape:
        raise UnsupportedError(f"{name} with parameters larger than its input")
    rank = len(x.shape)
    axes = sorted(axis % rank for axis in axes)
    order = [axis for axis in range(rank) if axis not in axes] + axes
    moved = [array.transpose(order) for array in arrays]
    lead, size = moved[0].shape[: rank - len(axes)], int(np.prod([x.shape[axis] for axis in axes]))
    if not moved[0].size:
        return x
    symbol = Symbol(name, x.dtype, (x.dtype,) * len(arrays), params)
    found = call.vector(symbol, [array.reshape(*lead, size) for array in moved], size)
    return Tensor(x.dtype, None, found.reshape(moved[0].shape).transpose(np.argsort(order)))


@MEANINGS.of("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def _along_one_axis(call: Call) -> Tensor | Sequence[Tensor]:
    node = call.node
    if not call.algebra.exact:
        return call.evaluation.by_body(call)
    rank = len(call.tensor(0).shape)
    if call.version < 13 and node.op_type != "LpNormalization":
        axes = range(call.get("axis", 1) % rank, rank)
    else:
        axes = [call.get("axis", -1)]
    return _grouped(call, node.op_type, tuple(axes), (), (call.get("p", 2),))


@MEANINGS.of("LayerNormalization", "RMSNormalization")
def _to_the_end(call: Call) -> Tensor | Sequence[Tensor]:
    if not call.algebra.exact:
        return call.evaluation.by_body(call)
    if len(call.node.outputs) > 1:
        raise UnsupportedError(f"{call.node.op_type} with several results")
    rank = len(call.tensor(0).shape)
    axes = range(call.get("axis", -1) % rank, rank)
    others = [call.elements(index) for index in (1, 2) if call.has(index)]
    params = (float(np.float32(call.get("epsilon", 1e-5))), call.get("stash_type", 1))
    return _grouped(call, call.node.op_type, tuple(axes), others, params)


@MEANINGS.of("InstanceNormalization")
def _of_channels(call: Call) -> Tensor | Sequence[Tensor]:
    rank = len(call.tensor(0).shape)
    others = [call.elements(index).reshape(-1, *(1,) * (rank - 2)) for index in (1, 2)]
    params = (float(np.float32(call.get("epsilon", 1e-5))),)
    if call.algebra.exact:
        return _grouped(call, "InstanceNormalization", range(2, rank), others, params)
    return call.evaluation.by_body(call)


@MEANINGS.of("TopK")
def _sorted(call: Call) -> list[Tensor]:
    """Name the greatest or least elements, and their places, by functions of the sequence."""
    x = call.tensor(0)
    elements, axis = x.elements(call.algebra), call.get("axis", -1)
    amount = int((call.integers(1, "k") or [call.get("k", 0)])[0])
    params = (call.get("largest", 1), call.get("sorted", 1))
    moved = np.moveaxis(elements, axis, -1)
    found: list[Tensor] = []
    for name, dtype in (("TopK", x.dtype), ("TopKPlaces", ir.DataType.INT64)):
        made = call.vector(Symbol(name, dtype, (x.dtype,), params), [moved], amount)
        found.append(Tensor(dtype, None, np.moveaxis(made, -1, axis)))
    return found
