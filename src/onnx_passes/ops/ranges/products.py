"""Range rules of matrix products and Einsum: bounds of sums of products, of intervals and of integers on grids."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnx_passes.numbers.grid import Grid, nearly_integer, product_of, same, spanned, total
from onnx_passes.numbers.range import UNKNOWN, Range, exact_up_to
from onnx_passes.ops.definition import GENERAL_DOMAINS
from onnx_passes.ops.facts.sums import Contraction, Labels, contraction_of
from onnx_passes.ops.ranges.elementwise import add, corners, multiply
from onnx_passes.ops.ranges.site import RANGES, Site


class Bounds(NamedTuple):
    """The ends of a range, as plain arrays of floats."""

    low: np.ndarray
    high: np.ndarray

    @property
    def is_point(self) -> bool:
        """Tell whether every element has a single value."""
        return self.low is self.high

    @property
    def size(self) -> np.ndarray:
        """Return the bound of the absolute value."""
        return np.abs(self.low) if self.is_point else np.maximum(np.abs(self.low), np.abs(self.high))

    def widened_to(self, value: float) -> Bounds:
        """Let a value be in the range."""
        return Bounds(np.minimum(self.low, value), np.maximum(self.high, value))

    def as_matrix(self, rows: int | None, columns: int | None) -> Bounds:
        """Expand the last two axes to sizes, where they are given."""
        low = _expanded(self.low, rows, columns)
        return Bounds(low, low if self.is_point else _expanded(self.high, rows, columns))


def of_range(found: Range) -> Bounds:
    """Return the ends of the values."""
    return Bounds(found.low, found.low) if found.is_point else Bounds(found.low, found.high)


def of_grid(grid: Grid) -> Bounds:
    """Return the ends of the integers."""
    low = grid.low.astype(np.float64)
    return Bounds(low, low if grid.is_point else grid.high.astype(np.float64))


def matrix_product(a: Bounds, b: Bounds, k: int) -> Bounds:
    """Return bounds of ``a @ b`` with an inner dimension of ``k``; tight if one side is constant."""
    if not a.is_point and not b.is_point:
        return _of_two_ranges(a, b, k)
    row = a if a.low.shape[-1] == a.high.shape[-1] == 1 else None
    a, b = a.as_matrix(None, k), b.as_matrix(k, None)
    if b.is_point:
        if a.is_point:
            exact = np.matmul(a.low, b.low)
            return Bounds(exact, exact)
        above, below = np.maximum(b.low, 0), np.minimum(b.low, 0)
        if row is not None:
            above, below = (part.sum(axis=-2, keepdims=True) for part in (above, below))
            return Bounds(row.low * above + row.high * below, row.high * above + row.low * below)
        return Bounds(a.low @ above + a.high @ below, a.high @ above + a.low @ below)
    above, below = np.maximum(a.low, 0), np.minimum(a.low, 0)
    return Bounds(above @ b.low + below @ b.high, above @ b.high + below @ b.low)


def sum_of_sizes(a: Bounds, b: Bounds, k: int) -> np.ndarray:
    """Return the bound of the sum of the absolute values of all products."""
    return _expanded(a.size, None, k) @ _expanded(b.size, k, None)


def _of_two_ranges(a: Bounds, b: Bounds, k: int) -> Bounds:
    """Multiply what holds for all rows with what holds for all columns."""
    rows = a.low.min(axis=-2, keepdims=True), a.high.max(axis=-2, keepdims=True)
    columns = b.low.min(axis=-1, keepdims=True), b.high.max(axis=-1, keepdims=True)
    turned = [np.swapaxes(column, -1, -2) for column in columns]
    ends = [row * column for row in rows for column in turned]
    low, high = spanned(ends)
    times = k if low.shape[-1] == 1 else 1
    return Bounds(low.sum(axis=-1, keepdims=True) * times, high.sum(axis=-1, keepdims=True) * times)


def _expanded(array: np.ndarray, rows: int | None, columns: int | None) -> np.ndarray:
    shape = list(array.shape)
    if rows is not None:
        shape[-2] = rows
    if columns is not None:
        shape[-1] = columns
    return np.broadcast_to(array, shape)


def uniform_product(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """Return the scale of a matrix product, from scales of both sides: their product must not vary along the sum.

    ``a`` is ``[…, M, K]`` and ``b`` is ``[…, K, N]``, each axis of full size or 1; the result is ``[…, M, N]``.
    """
    if a.shape[-1] == 1 and b.shape[-2] == 1:
        return a * b
    first = a[..., :1] * b[..., :1, :]
    varying = a[..., :, :, None] * b[..., None, :, :]
    expected = first[..., :, None, :]
    return first if same(varying, np.broadcast_to(expected, varying.shape)) else None


def seen_by_columns(scales: np.ndarray, matrix: np.ndarray) -> np.ndarray | None:
    """Return the one scale that each column of a constant matrix sees of rows that are scaled each in its own way.

    ``scales`` is ``[…, 1, K]`` and varies along nothing else, ``matrix`` is ``[K, N]``; the result is ``[…, 1, N]``.
    Rows with a zero do not count: a depthwise convolution, written as a matrix, sees one channel in each column.
    """
    if scales.size != scales.shape[-1] or matrix.ndim != 2 or matrix.shape[0] != scales.size:
        return None
    used, each = matrix != 0, scales.reshape(-1, 1)
    low, high = np.where(used, each, np.inf).min(axis=0), np.where(used, each, -np.inf).max(axis=0)
    found = np.where(used.any(axis=0), low, 1.0)
    return found.reshape(*scales.shape[:-1], -1) if np.array_equal(found, np.maximum(high, found)) else None


def finer(grid: Grid, axis: int) -> Grid:
    """Let the scale be the same along an axis, if it can."""
    if grid.scale.shape[axis] == 1:
        return grid
    least = np.take_along_axis(grid.scale, np.abs(grid.scale).argmin(axis=axis, keepdims=True), axis=axis)
    _, meant = nearly_integer(grid.scale / least)
    return (grid.in_steps_of(least) or grid) if meant.all() else grid


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

_MOST = 1 << 22
"""Where there are more products than this to look at, one range stands for all of an operand."""


def laid_out(array: np.ndarray, labels: Labels, order: Labels) -> np.ndarray:
    """Bring the axes of an operand into an order of labels, with size 1 for those that it has not."""
    present = [label for label in order if label in labels]
    turned = np.transpose(array, [labels.index(label) for label in present])
    return turned.reshape([turned.shape[present.index(label)] if label in present else 1 for label in order])


def _einsum(site: Site) -> Range:
    found = contraction_of(site.node)
    sizes = None if found is None else _summed_sizes(site, found)
    if found is None or sizes is None or not (site[0].is_finite and site[1].is_finite):
        return UNKNOWN
    order = (*found.result, *found.summed)
    a, b = (
        site[index].mapped(lambda array, labels=labels: laid_out(array, labels, order))
        for index, labels in enumerate(found.operands)
    )
    if np.prod(np.broadcast_shapes(a.low.shape, b.low.shape), dtype=np.float64) > _MOST:
        a = a.joined(range(len(order)))
    axes = range(len(found.result), len(order))
    least, most = corners(a, b, np.multiply)
    grid = None if a.grid is None or b.grid is None else product_of(a.grid, b.grid)
    terms = int(np.prod(sizes))
    slack = total(a.size * b.size, axes, sizes) * ((terms + 2) * site.unit * 1.01)
    if _is_exact(a, b, axes, sizes, exact_up_to(site.node.outputs[0].dtype)):
        slack = np.zeros(())
    low, high = total(least, axes, sizes) - slack, total(most, axes, sizes) + slack
    return Range(low, high, _grid(grid, axes, sizes)).mapped(lambda array: np.squeeze(array, tuple(axes)))


def _summed_sizes(site: Site, found: Contraction) -> list[int] | None:
    sizes: dict[str, int] = {}
    for index, labels in enumerate(found.operands):
        for label, size in zip(labels, site.dims(index) or (), strict=False):
            if isinstance(size, int):
                sizes[label] = max(sizes.get(label, 1), size)
    known = [sizes[label] for label in found.summed if label in sizes]
    return known if len(known) == len(found.summed) else None


def _grid(product: Grid | None, axes: range, sizes: list[int]) -> Grid | None:
    """Return the grid of sums: the scale of the products must be the same along them."""
    if product is None or product.bias.any() or any(product.scale.shape[axis] > 1 for axis in axes):
        return None
    bounds = [total(array.astype(np.float64), axes, sizes) for array in (product.low, product.high)]
    return Grid.of(product.scale, np.zeros((1,) * product.bias.ndim), *bounds)


def _is_exact(a: Range, b: Range, axes: range, sizes: list[int], exact: float) -> bool:
    steps = [None if known.grid is None else known.grid.exact_in for known in (a, b)]
    if steps[0] is None or steps[1] is None or a.grid is None or b.grid is None:
        return False
    if any(grid.scale.shape[axis] > 1 for grid in (a.grid, b.grid) for axis in axes):
        return False
    return bool((total(steps[0].astype(np.float64) * steps[1], axes, sizes) <= exact).all())


RANGES.attach({"Einsum": _einsum})
