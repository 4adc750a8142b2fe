"""The rule of Einsum: a sum of products along the labels that the result has not."""

from __future__ import annotations

import numpy as np

from onnx_passes.analysis.einsum import Contraction, Labels, contraction_of
from onnx_passes.analysis.ranges.arrays import total
from onnx_passes.analysis.ranges.elementwise import corners
from onnx_passes.analysis.ranges.grid import Grid, product_of
from onnx_passes.analysis.ranges.range import UNKNOWN, Range
from onnx_passes.analysis.ranges.rounding import exact_up_to
from onnx_passes.analysis.ranges.site import RANGES, Site

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
