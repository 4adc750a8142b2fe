"""Rules of matrix products."""

from __future__ import annotations

import numpy as np

from onnx_passes.analysis.ranges.contraction import (
    Bounds,
    finer,
    matrix_product,
    of_grid,
    of_range,
    seen_by_columns,
    sum_of_sizes,
    uniform_product,
)
from onnx_passes.analysis.ranges.elementwise import add, multiply
from onnx_passes.analysis.ranges.grid import Grid
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.rounding import exact_up_to
from onnx_passes.analysis.ranges.site import RANGES, Site
from onnx_passes.ops.definition import GENERAL_DOMAINS


def product(a: Range, b: Range, k: int, unit: float, exact: float) -> Range:
    """Return the range of ``a @ b``, both of rank 2 at least, with an inner dimension of ``k``."""
    if not (a.is_finite and b.is_finite):
        return UNKNOWN
    values = matrix_product(of_range(a), of_range(b), k)
    grid = product_grid(a, b, k)
    slack = rounding_slack(a, b, k, unit, exact)
    return Range(values.low - slack, values.high + slack, grid)


def rounding_slack(a: Range, b: Range, k: int, unit: float, exact: float) -> np.ndarray:
    """Return how far a sum of ``k`` products in floats, in any order, can be from the exact one."""
    if a.grid is not None and b.grid is not None:
        first, second = a.grid.exact_in, b.grid.exact_in
        uniform = a.grid.scale.shape[-1] == 1 and b.grid.scale.shape[-2] == 1
        if first is not None and second is not None and uniform:
            p, q = first.astype(np.float64), second.astype(np.float64)
            if (sum_of_sizes(Bounds(p, p), Bounds(q, q), k) <= exact).all():
                return np.zeros(())
    return sum_of_sizes(of_range(a), of_range(b), k) * ((k + 2) * unit * 1.01)


def product_grid(a: Range, b: Range, k: int) -> Grid | None:
    """Return the grid of ``a @ b``: its scale is that of both sides, if it does not vary along the sum."""
    if a.grid is None or b.grid is None:
        return None
    first, second = finer(a.grid.centred() or a.grid, -1), finer(b.grid.centred() or b.grid, -2)
    scale = uniform_product(first.scale, second.scale)
    if scale is None and second.is_point and second.scale.shape[-2] == 1:
        seen = seen_by_columns(first.scale, np.broadcast_to(second.low, (k, second.low.shape[-1])))
        scale = None if seen is None else seen * second.scale
    if scale is None:
        return None
    bias = _bias(first, second, k)
    if bias is None:
        return None
    bounds = matrix_product(of_grid(first), of_grid(second), k)
    return Grid.of(scale, bias, bounds.low, bounds.high)


def _bias(a: Grid, b: Grid, k: int) -> np.ndarray | None:
    """Return what the biases of one side add; the other side must be constant then, and without bias."""
    if not a.bias.any() and not b.bias.any():
        return np.zeros((1,) * max(a.bias.ndim, b.bias.ndim))
    if not b.bias.any() and b.is_point:
        return _times(a.bias, b.bounds[0], k)
    if not a.bias.any() and a.is_point:
        return _times(a.bounds[0], b.bias, k)
    return None


def _times(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
    return matrix_product(Bounds(a, a), Bounds(b, b), k).low


def _matmul(site: Site) -> Range:
    a, b = site[0], site[1]
    ranks = site.rank(0), site.rank(1)
    k = _inner(site)
    if ranks == (None, 2) and k is not None:
        return product(a.overall().of_rank(2), b, k, site.unit, exact_up_to(site.node.outputs[0].dtype)).overall()
    if ranks[0] is None or ranks[1] is None or k is None or 0 in ranks:
        return UNKNOWN
    if ranks[0] == 1:
        a = a.mapped(lambda array: array[None, :])
    if ranks[1] == 1:
        b = b.mapped(lambda array: array[:, None])
    found = product(a, b, k, site.unit, exact_up_to(site.node.outputs[0].dtype))
    if found is UNKNOWN:
        return found
    dropped = tuple(axis for axis, given in ((-2, ranks[0]), (-1, ranks[1])) if given == 1)
    rank = max(ranks[0], ranks[1], 2)
    return found.of_rank(rank).mapped(lambda array: np.squeeze(array, axis=dropped)) if dropped else found


def _inner(site: Site) -> int | None:
    left, right = site.dims(0), site.dims(1)
    for dims, axis in ((left, -1), (right, -2 if right is not None and len(right) > 1 else -1)):
        found = dims[axis] if dims else None
        if isinstance(found, int):
            return found
    return None


def _gemm(site: Site) -> Range:
    a, b = site[0], site[1]
    if site.rank(0) != 2 or site.rank(1) != 2:
        return UNKNOWN
    turned = bool(site.attr_int("transA", 0)), bool(site.attr_int("transB", 0))
    dims = site.dims(0), site.dims(1)
    sizes = [(dims[0] or [])[0 if turned[0] else 1], (dims[1] or [])[1 if turned[1] else 0]]
    k = next((size for size in sizes if isinstance(size, int)), None)
    if k is None:
        return UNKNOWN
    if turned[0]:
        a = a.mapped(np.transpose)
    if turned[1]:
        b = b.mapped(np.transpose)
    dtype = site.node.outputs[0].dtype
    found = product(a, b, k, site.unit, exact_up_to(dtype))
    alpha, beta = site.attr_float("alpha", 1.0), site.attr_float("beta", 1.0)
    if alpha != 1:
        found = multiply(found, Range.of(alpha, alpha))
    if not site.has(2):
        return found
    c = site[2] if beta == 1 else multiply(site[2], Range.of(beta, beta))
    return with_addend(found, c, k, site.unit, exact_up_to(dtype))


def with_addend(found: Range, addend: Range, k: int, unit: float, exact: float) -> Range:
    """Add what may be added first, last, or in between the ``k`` products of a sum."""
    total = add(found, addend)
    if total.integer_grid is not None and bool((found.size + addend.size <= exact).all()):
        return total
    slack = found.size * (2 * unit) + addend.size * ((k + 2) * unit * 1.01)
    return Range(total.low - slack, total.high + slack, total.grid)


def _xnor_popcount(site: Site) -> Range:
    k = _inner(site)
    bits = all(site[index].low.min() >= 0 and site[index].high.max() <= 1 for index in (0, 1))
    return Range.integers(0, k) if k is not None and bits else UNKNOWN


RANGES.attach({"Gemm": _gemm, "MatMul": _matmul})
RANGES.attach({"XnorPopcountMatMul": _xnor_popcount}, domains=GENERAL_DOMAINS)
