"""Permutations of axes, and their effect on values that broadcast against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import Dim, dims, rank

T = TypeVar("T")
Permutation = list[int]


def permutation(node: ir.Node | None, length: int | None = None) -> Permutation | None:
    """Return the permutation of a Transpose; None if it reverses an unknown number of axes, or is invalid.

    ``length`` is the rank if the value itself has an unknown one.
    """
    if node is None or node.op_type != "Transpose" or node.domain != "":
        return None
    given, known = node.attributes.get("perm"), rank(node.inputs[0])
    length = length if known is None else known
    if given is None:
        return None if length is None else list(range(length))[::-1]
    perm = [] if given.is_ref() else list(given.as_ints())
    is_permutation = sorted(perm) == list(range(len(perm))) and not given.is_ref()
    return perm if is_permutation and length in (None, len(perm)) else None


def moves_only_ones(perm: Permutation, sizes: Sequence[Dim]) -> bool:
    """Return whether only axes of size one move, so that the order of elements stays."""
    kept = [axis for axis in perm if sizes[axis] != 1]
    return kept == sorted(kept)


def reshape_target(sizes: Sequence[Dim]) -> list[int] | None:
    """Return the target of a Reshape to these sizes; None with a zero or more than one unknown size."""
    if 0 in sizes or sum(not isinstance(size, int) for size in sizes) > 1:
        return None
    return [size if isinstance(size, int) else -1 for size in sizes]


def inverse(perm: Sequence[int]) -> Permutation:
    """Return the inverse permutation."""
    return [perm.index(axis) for axis in range(len(perm))]


def permuted(items: Sequence[T], perm: Permutation) -> list[T]:
    """Permute items."""
    return [items[axis] for axis in perm]


def extended(perm: Permutation, length: int) -> Permutation:
    """Return the permutation for values of a higher rank, whose additional first axes stay."""
    more = length - len(perm)
    return [*range(more), *(axis + more for axis in perm)]


def compacted(axes: Sequence[int]) -> Permutation:
    """Return the permutation with the same order as these axes, some of which are missing."""
    order = sorted(axes)
    return [order.index(axis) for axis in axes]


def transposed(op: Builder, value: ir.Value, perm: Permutation) -> ir.Value:
    """Transpose a new value, unless the permutation is the identity."""
    return value if perm == sorted(perm) else op.Transpose(value, perm=perm)


def is_axis(axis: int, length: int) -> bool:
    """Return whether an axis exists, counted from either end."""
    return -length <= axis < length


def untransposed(value: ir.Value, perm: Permutation) -> ir.Value | ir.TensorProtocol | None:
    """Return the value whose broadcast transposition is ``value``; None if unknown.

    That is the operand of such a Transpose, a constant with its axes permuted back, or the value itself if only axes
    of size one would move.
    """
    own = permutation(value.producer())
    if own is not None and len(own) <= len(perm) and extended(own, len(perm)) == perm:
        return value.producer().inputs[0]  # pyright: ignore[reportOptionalMemberAccess]
    sizes = dims(value)
    if sizes is None or len(sizes) > len(perm):
        return None
    if _stays(sizes, perm):
        return value
    tensor = constant_tensor(value)
    if tensor is None or tensor.dtype is ir.DataType.STRING:
        return None
    return ir.Tensor(_put_back(tensor.numpy(), perm), dtype=tensor.dtype)


def _stays(sizes: Sequence[Dim], perm: Permutation) -> bool:
    more = len(perm) - len(sizes)
    return all(size == 1 or perm[axis + more] == axis + more for axis, size in enumerate(sizes))


def _put_back(array: np.ndarray, perm: Permutation) -> np.ndarray:
    more = len(perm) - array.ndim
    result = array.reshape((1,) * more + array.shape).transpose(inverse(perm))
    ones = next((axis for axis, size in enumerate(result.shape[:more]) if size != 1), more)
    return np.ascontiguousarray(result.reshape(result.shape[ones:]))
