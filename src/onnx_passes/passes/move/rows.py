"""Rows that are flattened for a matrix product, and unflattened after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.arguments import argument
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant
from onnx_passes.graph.permutations import reshape_target
from onnx_passes.graph.shapes import Dim, dims, rank, same_dim
from onnx_passes.graph.uses import is_used_elsewhere
from onnx_passes.rewrite.refusal import Refusal, no

SIZES_TO_TRY: Mapping[str, Any] = MappingProxyType(
    {
        "shapes": {"x": ((2, 5, 3), (2, 1, 3), (2, 0, 3)), "w": ((3, 2),)},
        "constants": {"s": ([-1, 3],), "t": ([2, -1, 2],)},
    }
)
"""Hints for the fuzzer: rows ``x`` flattened to ``s``, a matrix ``w``, and the target ``t`` for their product."""


def stacked_rows(
    op: Builder, flat: ir.Value, product: ir.Value, result: ir.Value, matrix: tuple[Dim, Dim], *, reshape_pays: bool
) -> ir.Value | Refusal:
    """Return the rows of ``flat`` shaped so that their product with a matrix of these sizes is ``result``.

    ``flat`` and ``result`` are reshapes of the rows and of their product. The returned rows are the input of the first
    reshape, or a reshape of it: if ``reshape_pays``, or if that saves computing the second target.
    """
    size, columns = matrix
    inner, outer = flat.producer(), result.producer()
    assert inner is not None
    assert outer is not None
    x, target = inner.inputs[0], argument(outer, 1)
    before, after = dims(x), dims(result)
    if x is None or before is None or after is None or rank(flat) != 2:
        return no("the shapes are not known", at=result)
    if target is not None and target.is_initializer() and target.is_graph_input():
        return no("a caller may override the target shape", at=target)
    if is_used_elsewhere(product):
        return no("the product is used elsewhere", at=product)
    if not isinstance(size, int) or size == 0:
        return no("the rows are empty, or of unknown size", at=flat)
    if not same_dim(after[-1], columns):
        return no("the columns of the product are not known to be kept", at=result)
    # As the product is defined, the flat rows have its size, which determines their number.
    wanted = (*after[:-1], size)
    if len(wanted) == len(before) and all(map(same_dim, wanted, before)):
        return x
    if (is_constant(target) and not reshape_pays) or is_used_elsewhere(flat):
        return no("the rows have another shape before, and changing it takes as many reshapes", at=flat)
    sizes = _sizes(before, wanted)
    if sizes is None or not isinstance(columns, int) or columns == 0:
        return no("the sizes are not known, or zero", at=result)
    return op.Reshape(x, np.array(sizes, np.int64))


def _sizes(before: Sequence[Dim], wanted: Sequence[Dim]) -> list[int] | None:
    """Return the target of a Reshape that infers the one unknown size, or copies all unknown sizes in place."""
    inferred = reshape_target(wanted)
    if inferred is not None or 0 in wanted:
        return inferred
    sizes: list[int] = []
    for axis, size in enumerate(wanted):
        if isinstance(size, int):
            sizes.append(size)
        elif axis < len(before) and same_dim(size, before[axis]):
            sizes.append(0)
        else:
            return None
    return sizes
