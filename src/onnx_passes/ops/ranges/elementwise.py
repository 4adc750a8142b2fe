"""Rules of arithmetic, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.grid import Grid, aligned, product_of, spanned, sum_of
from onnx_passes.numbers.range import UNKNOWN, Range, integer_limits
from onnx_passes.ops.ranges.site import RANGES, RangeRule, Site

_FLOATS = {ir.DataType.FLOAT: np.float32, ir.DataType.FLOAT16: np.float16, ir.DataType.DOUBLE: np.float64}
_LARGEST_POWER = 64


def add(a: Range, b: Range) -> Range:
    """Return the range of a sum."""
    return Range(a.low + b.low, a.high + b.high, _sum_grid(a, b))


def negate(a: Range) -> Range:
    """Return the range of the negative."""
    return Range(-a.high, -a.low, None if a.grid is None else a.grid.negated())


def multiply(a: Range, b: Range) -> Range:
    """Return the range of a product."""
    low, high = corners(a, b, np.multiply)
    return Range(low, high, _product_grid(a, b))


def maximum(a: Range, b: Range) -> Range:
    """Return the range of the greater of two values."""
    return Range(np.maximum(a.low, b.low), np.maximum(a.high, b.high), _greater_grid(a, b))


def minimum(a: Range, b: Range) -> Range:
    """Return the range of the lesser of two values."""
    return negate(maximum(negate(a), negate(b)))


def either(a: Range, b: Range) -> Range:
    """Return the range of what may be one or the other."""
    return Range(np.minimum(a.low, b.low), np.maximum(a.high, b.high), _either_grid(a, b))


def corners(
    a: Range, b: Range, function: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate at the ends of both ranges; zero times infinity is zero, for infinite values do not occur."""
    with np.errstate(invalid="ignore", over="ignore"):
        ends = [
            np.nan_to_num(function(x, y), nan=0.0, posinf=math.inf, neginf=-math.inf)
            for x in (a.low, a.high)
            for y in (b.low, b.high)
        ]
    return spanned(ends)


def _sum_grid(a: Range, b: Range) -> Grid | None:
    if a.integer_grid is not None and b.integer_grid is not None:
        return sum_of(a.integer_grid, b.integer_grid)
    if b.is_point and a.grid is not None:
        return a.grid.shifted(b.exact)
    if a.is_point and b.grid is not None:
        return b.grid.shifted(a.exact)
    return None if a.grid is None or b.grid is None else sum_of(a.grid, b.grid)


def _product_grid(a: Range, b: Range) -> Grid | None:
    if a.integer_grid is not None and b.integer_grid is not None:
        return product_of(a.integer_grid, b.integer_grid)
    if b.is_point and a.grid is not None:
        return a.grid.scaled(b.exact)
    if a.is_point and b.grid is not None:
        return b.grid.scaled(a.exact)
    return None if a.grid is None or b.grid is None else product_of(a.grid, b.grid)


def _greater_grid(a: Range, b: Range) -> Grid | None:
    if a.grid is not None and b.is_point:
        return a.grid.at_least(b.exact)
    if b.grid is not None and a.is_point:
        return b.grid.at_least(a.exact)
    pair = None if a.grid is None or b.grid is None else aligned((a.grid, b.grid))
    if pair is None:
        return None
    p, q = pair
    up = p.scale > 0
    return Grid.of(
        p.scale,
        p.bias,
        np.where(up, np.maximum(p.low, q.low), np.minimum(p.low, q.low)),
        np.where(up, np.maximum(p.high, q.high), np.minimum(p.high, q.high)),
    )


def _either_grid(a: Range, b: Range) -> Grid | None:
    if a.grid is not None and b.is_point:
        found = a.grid.holding(b.exact)
    elif b.grid is not None and a.is_point:
        found = b.grid.holding(a.exact)
    else:
        found = None
    pair = None if a.grid is None or b.grid is None else aligned((a.grid, b.grid))
    if found is not None or pair is None:
        return found
    p, q = pair
    return Grid.of(p.scale, p.bias, np.minimum(p.low, q.low), np.maximum(p.high, q.high))


def _computed(site: Site, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Range | None:
    """Compute with constants as the runtime does, in the same type."""
    a, b = site.number(0), site.number(1)
    dtype = site.node.outputs[0].dtype
    kind = None if dtype is None else _FLOATS.get(dtype)
    if a is None or b is None or kind is None:
        return None
    with np.errstate(all="ignore"):
        result = function(a.astype(kind), b.astype(kind))
    return Range.point(result) if np.isfinite(result).all() else None


def _with_constants(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], rule: Callable[[Range, Range], Range]
) -> Callable[[Site], Range]:
    def apply(site: Site) -> Range:
        found = rule(site[0], site[1])
        computed = _computed(site, function)
        if computed is None:
            return found
        return computed if found.grid is None else Range(computed.low, computed.high, found.grid)

    return apply


def _subtract(a: Range, b: Range) -> Range:
    return add(a, negate(b))


def _mul(site: Site) -> Range:
    a = site[0]
    if site.node.inputs[0] is site.node.inputs[1]:
        return _power_of(a, 2, a.grid and product_of(a.grid, a.grid))
    return _MULTIPLY(site)


def _power_of(a: Range, exponent: int, grid: Grid | None) -> Range:
    with np.errstate(over="ignore"):
        ends = (a.low**exponent, a.high**exponent)
    low, high = np.minimum(*ends), np.maximum(*ends)
    if exponent % 2 == 0:
        low = np.where((a.low <= 0) & (a.high >= 0), 0.0, low)
        if grid is not None:
            grid = Grid.of(grid.scale, grid.bias, np.maximum(grid.low, 0), grid.high)
    return Range(low, high, grid)


def _divide(site: Site) -> Range:
    a, b = site[0], site[1]
    if ((b.low <= 0) & (b.high >= 0)).any():
        return UNKNOWN
    if integer_limits(site.node.outputs[0].dtype) is not None:
        return Range(*corners(a, b, lambda x, y: np.trunc(x / y)))
    low, high = corners(a, b, np.divide)
    grid = a.grid.scaled(1.0 / b.exact) if b.is_point and a.grid is not None else None
    computed = _computed(site, np.divide)
    if computed is not None:
        low, high = computed.low, computed.high
        grid = grid or computed.grid
    return Range(low, high, grid)


def _pow(site: Site) -> Range:
    a, exponent = site[0], site.scalar(1, 1.0)
    if exponent is None:
        return UNKNOWN
    if exponent == int(exponent) and 0 < exponent <= _LARGEST_POWER:
        n = int(exponent)
        grid = a.grid
        for _ in range(n - 1):
            grid = None if grid is None or a.grid is None else product_of(grid, a.grid)
        return _loosened(_power_of(a, n, grid))
    if (a.low < 0).any() or (exponent < 0 and (a.low <= 0).any()):
        return UNKNOWN
    with np.errstate(over="ignore"):
        ends = (a.low**exponent, a.high**exponent)
    return _loosened(Range(np.minimum(*ends), np.maximum(*ends)))


def _loosened(found: Range) -> Range:
    """Leave room for functions that are not correctly rounded."""
    return Range(found.low - np.abs(found.low) * 1e-6, found.high + np.abs(found.high) * 1e-6, found.grid)


def _folded(rule: Callable[[Range, Range], Range]) -> Callable[[Site], Range]:
    def apply(site: Site) -> Range:
        result = site[0]
        for index in range(1, len(site.ranges)):
            result = rule(result, site[index])
        return result

    return apply


def _sum(site: Site) -> Range:
    found = _folded(add)(site)
    # The order of the additions is not prescribed.
    slack = sum((site[index].size for index in range(len(site.ranges))), np.zeros(())) * len(site.ranges) * site.unit
    if len(site.ranges) < 3 or (found.integer_grid is not None and (slack < 1).all()):
        return found
    return Range(found.low - slack, found.high + slack, found.grid)


def _mean(site: Site) -> Range:
    found = _sum(site)
    return multiply(found, Range.of(1 / len(site.ranges), 1 / len(site.ranges)))


def _clip(site: Site) -> Range:
    least = Range.of(site.attr_float("min", -math.inf), site.attr_float("min", -math.inf))
    most = Range.of(site.attr_float("max", math.inf), site.attr_float("max", math.inf))
    if site.has(1):
        least = site[1].overall()
    if site.has(2):
        most = site[2].overall()
    return limited(site[0], least, most)


def limited(found: Range, least: Range, most: Range) -> Range:
    """Return the range of a value kept between limits."""
    if not np.isinf(least.high).all():
        found = maximum(found, least)
    return found if np.isinf(most.low).all() else minimum(found, most)


def _where(site: Site) -> Range:
    condition = site[0]
    if condition.is_point:
        if (condition.low != 0).all():
            return site[1]
        if (condition.low == 0).all():
            return site[2]
    return either(site[1], site[2])


def _neg(site: Site) -> Range:
    return negate(site[0])


def _abs(site: Site) -> Range:
    a = site[0]
    around_zero = (a.low <= 0) & (a.high >= 0)
    low = np.where(around_zero, 0.0, np.minimum(np.abs(a.low), np.abs(a.high)))
    grid = None if a.grid is None else a.grid.centred()
    if grid is not None:
        holds_zero = (grid.low <= 0) & (grid.high >= 0)
        sizes = np.abs(grid.low), np.abs(grid.high)
        grid = Grid.of(np.abs(grid.scale), grid.bias, np.where(holds_zero, 0, np.minimum(*sizes)), np.maximum(*sizes))
    return Range(low, a.size, grid)


def _rounded(function: Callable[[np.ndarray], np.ndarray]) -> RangeRule:
    def apply(site: Site) -> Range:
        # What is an integer in exact arithmetic may have been rounded to just below one.
        return Range.integers(function(site[0].low), function(site[0].high))

    return apply


def _sign(site: Site) -> Range:
    return Range.integers(np.sign(site[0].low), np.sign(site[0].high))


def _prelu(site: Site) -> Range:
    slope = site[1]
    a = site[0]
    positive, negative = maximum(a, Range.of(0, 0)), minimum(a, Range.of(0, 0))
    bent = multiply(negative, slope)
    low = np.where(a.high <= 0, bent.low, np.minimum(positive.low, bent.low))
    high = np.where(a.low >= 0, positive.high, np.maximum(positive.high, bent.high))
    low = np.where(a.low >= 0, positive.low, low)
    high = np.where(a.high <= 0, bent.high, high)
    return Range(low, high, a.grid if (a.low >= 0).all() else None)


def _leaky_relu(site: Site) -> Range:
    slope = site.attr_float("alpha", 0.01)
    return _prelu(Site(site.node, [site[0], Range.of(slope, slope)]))


def _relu(site: Site) -> Range:
    return maximum(site[0], Range.point(np.zeros(())))


_MULTIPLY = _with_constants(np.multiply, multiply)

RANGES.attach(
    {
        "Abs": _abs,
        "Add": _with_constants(np.add, add),
        "Ceil": _rounded(np.ceil),
        "Clip": _clip,
        "Div": _divide,
        "Floor": _rounded(np.floor),
        "LeakyRelu": _leaky_relu,
        "Max": _folded(maximum),
        "Mean": _mean,
        "Min": _folded(minimum),
        "Mul": _mul,
        "Neg": _neg,
        "PRelu": _prelu,
        "Pow": _pow,
        "Relu": _relu,
        "Round": _rounded(np.rint),
        "Sign": _sign,
        "Sub": _with_constants(np.subtract, _subtract),
        "Sum": _sum,
        "Where": _where,
    }
)
