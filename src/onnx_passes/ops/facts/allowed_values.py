"""The values that a quantizer or a data type lets through: integers times a scale."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_DOUBLE
from onnx_passes.graph import annotations
from onnx_passes.graph.constants import constant, constant_tensor
from onnx_passes.graph.tensor_types import declared_bounds, integer_limits
from onnx_passes.ops.quantizer import quantizer_of

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class AllowedValues:
    """The values ``(k - zero) * scale`` for integers ``k`` from ``low`` to ``high``; ``closed`` if no others occur."""

    low: int
    high: int
    scale: Array
    zero: Array
    closed: bool = False


def annotated_grid(value: ir.Value) -> AllowedValues | None:
    """Return the values of the data type that a value is annotated with."""
    name = annotations.get(value).get("finn_datatype", "")
    dtype = cast("ir.DataType", value.dtype)
    if not (dtype.is_floating_point() or dtype.is_integer()):
        return None
    one, zero = np.array(1.0), np.array(0.0)
    if name == "BIPOLAR":
        return AllowedValues(0, 1, np.array(2.0), np.array(0.5), closed=True)
    if name in ("BINARY", "TERNARY"):
        return AllowedValues(-1 if name == "TERNARY" else 0, 1, one, zero, closed=True)
    parsed = re.fullmatch(r"(U?INT|FIXED<)(\d{1,4})(?:,(\d{1,4})>)?", name)
    if parsed is None or int(parsed[2]) == 0 or (parsed[1] == "FIXED<") != (parsed[3] is not None):
        return None
    bits = int(parsed[2])
    low, high = (0, 2**bits - 1) if parsed[1] == "UINT" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # Beyond the precision of the element type there are values of the data type that it cannot hold.
    exact = 2 ** (float_info(dtype).nmant + 1) if dtype.is_floating_point() else EXACT_IN_DOUBLE
    scale = one if parsed[3] is None else np.exp2(np.array(float(int(parsed[3]) - bits)))
    least, most = declared_bounds(value) or (-math.inf, math.inf)
    low, high = max(low, -exact, least / float(scale)), min(high, exact, most / float(scale))
    return AllowedValues(math.ceil(low), math.floor(high), scale, zero, closed=True)


def grid_of(node: ir.Node, rank: int) -> AllowedValues | None:
    """Return the grid of a quantizer whose parameters are constant."""
    quantizer = quantizer_of(node)
    found = None if quantizer is None else quantizer.grid(node)
    if found is not None:
        return AllowedValues(found.low, found.high, found.scale, found.zero)
    scale = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    if (
        scale is None
        or (node.domain, node.op_type) != ("", "QuantizeLinear")
        or node.attributes.get_int("block_size", 0)
    ):
        return None
    return _linear_grid(node, scale.astype(np.float64), rank)


def _linear_grid(node: ir.Node, scale: Array, rank: int) -> AllowedValues | None:
    dtype, zero = ir.DataType(node.attributes.get_int("output_dtype", 0) or ir.DataType.UINT8), np.array(0.0)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        tensor = constant_tensor(node.inputs[2])
        if tensor is None:
            return None
        dtype, zero = tensor.dtype, tensor.numpy().astype(np.float64)
    if not dtype.is_integer():
        return None
    axis = node.attributes.get_int("axis", 1)
    axis += rank if axis < 0 else 0
    if scale.ndim == 1 and scale.size > 1 and 0 <= axis < rank:
        along = [-1 if dim == axis else 1 for dim in range(rank)]
        scale, zero = scale.reshape(along), zero.reshape(along) if zero.size > 1 else zero
    return AllowedValues(*integer_limits(dtype), scale, zero)


def broadcasts(grid: AllowedValues, shape: Sequence[int]) -> bool:
    """Return whether the parameters of a grid are finite and broadcast to a shape without enlarging it."""
    if not (np.isfinite(grid.scale).all() and np.isfinite(grid.zero).all() and grid.scale.size and grid.zero.size):
        return False
    try:
        return np.broadcast_shapes(grid.scale.shape, grid.zero.shape, tuple(shape)) == tuple(shape) or (
            grid.scale.size == grid.zero.size == 1
        )
    except ValueError:
        return False


def float_info(dtype: ir.DataType) -> Any:
    """Return limits and precision of a float type, narrow ones included."""
    return cast("Any", ml_dtypes.finfo(dtype.numpy()))
