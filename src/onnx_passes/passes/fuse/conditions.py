"""Questions that rules on numeric operators ask of a match."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.shapes import rank
from onnx_passes.passes.eliminate.evidence import is_used_elsewhere
from onnx_passes.rewrite.match import Match

FLOAT, DOUBLE, HALF = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16

_SMALL = 4096
"""Constants of up to so many bytes may be there twice."""


def opset(match: Match) -> int:
    """Return the version of the default operator set at a match."""
    return match.opset


def number(value: ir.Value | None, of: ir.Value | None = None) -> float | None:
    """Return the number that a constant of one element holds, if it does not raise the rank of ``of``."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1 or not (tensor.dtype.is_floating_point() or tensor.dtype.is_integer()):
        return None
    dims = len(tensor.shape)
    if dims > 0 and (rank(of) or 0) < dims:
        return None
    return float(tensor.numpy().reshape(()).item())


def is_number(value: ir.Value | None, expected: float, of: ir.Value | None = None) -> bool:
    """Tell whether a constant of one element is a number, as closely as its type can say."""
    found, tensor = number(value, of), constant_tensor(value)
    if found is None or tensor is None:
        return False
    tolerance = 2e-3 if tensor.dtype in (HALF, ir.DataType.BFLOAT16) else 1e-5
    return math.isclose(found, expected, rel_tol=tolerance)


def finite_constant(value: ir.Value | None) -> np.ndarray | None:
    """Return a constant of floats in double precision if all its elements are finite."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_floating_point():
        return None
    wide = tensor.numpy().astype(np.float64)
    return wide if np.isfinite(wide).all() else None


def rounded(wide: np.ndarray, dtype: ir.DataType) -> np.ndarray | None:
    """Round once to the type of the model; nothing if an element is not finite there."""
    with np.errstate(all="ignore"):
        array = wide.astype(dtype.numpy())
    return array if np.isfinite(array.astype(np.float64)).all() else None


def grows(value: ir.Value) -> bool:
    """Tell whether a changed copy of a constant comes on top of it, as it is used elsewhere, and is not small."""
    tensor = constant_tensor(value)
    return is_used_elsewhere(value) and tensor is not None and tensor.nbytes > _SMALL


def per_channel(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """Spread a constant over channels; nothing if it varies along another axis or would enlarge what it meets."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    axis %= rank
    if any(size != 1 for i, size in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1), (channels,))
