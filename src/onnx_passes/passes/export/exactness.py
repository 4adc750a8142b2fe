"""Products whose sums floats hold exactly, in whatever order they are added."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant
from onnx_passes.graph.shapes import dimension, rank, static_shape
from onnx_passes.passes.export.containers import EXACT_IN_FLOAT, Bounds, size_of
from onnx_passes.passes.export.workshop import Workshop


def is_exact_product(shop: Workshop, node: ir.Node) -> bool:
    """Tell whether a MatMul, Conv or ConvTranspose is of integers, and no sum of products passes what floats hold."""
    x, w = node.inputs[0], node.inputs[1]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    left, right, added = shop.bounds(x), shop.bounds(w), (0, 0) if bias is None else shop.bounds(bias)
    if x is None or w is None or left is None or right is None or added is None:
        return False
    more, terms = size_of(added), _terms(node, x, w)
    if terms is not None and terms * size_of(left) * size_of(right) + more <= EXACT_IN_FLOAT:
        return True
    for value, bounds in ((w, left), (x, right)):
        held = constant(value)
        if held is not None and held.ndim >= 2:
            return _most(held, bounds, node.op_type) + more <= EXACT_IN_FLOAT
    return False


def _terms(node: ir.Node, x: ir.Value, w: ir.Value) -> int | None:
    """Return how many products are added up, at most."""
    shape = static_shape(w)
    if node.op_type == "MatMul":
        return dimension(x, -1) or dimension(w, -2 if (rank(w) or 0) > 1 else 0)
    if shape is None:
        return None
    return math.prod(shape[1:]) if node.op_type == "Conv" else shape[0] * math.prod(shape[2:])


def _most(weights: np.ndarray, bounds: Bounds, operator: str) -> float:
    """Return what some of the products add up to at most, in size."""
    positive, negative = (_sums(np.maximum(part, 0), operator) for part in (weights, -weights))
    above, below = max(bounds[1], 0), max(-bounds[0], 0)
    up, down = positive * above + negative * below, positive * below + negative * above
    return float(max(up.max(), down.max()))


def _sums(weights: np.ndarray, operator: str) -> np.ndarray:
    """Return sums that are no less than what is added for one element of the result."""
    wide = weights.astype(np.float64)
    if operator == "Conv":
        return wide.reshape(len(wide), -1).sum(axis=1)
    if operator == "ConvTranspose":
        return wide.reshape(*wide.shape[:2], -1).sum(axis=(0, 2))
    # Whichever of two matrices it is: sums along columns and rows.
    return np.concatenate([wide.sum(axis=-2).reshape(-1), wide.sum(axis=-1).reshape(-1)])
