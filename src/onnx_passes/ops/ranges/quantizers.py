"""Range rules of quantizers and of operators that count thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from onnx_passes.datatypes.base import EXACT_IN_FLOAT
from onnx_passes.graph.constants import constant
from onnx_passes.numbers.grid import Grid, along, of_rank, spanned
from onnx_passes.numbers.range import UNKNOWN, Range, integer_limits
from onnx_passes.numbers.rounding import round_numpy
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN, GENERAL_DOMAINS, OUR_DOMAIN, QONNX_DOMAINS, definition_of
from onnx_passes.ops.quantizer import quantizer_of
from onnx_passes.ops.ranges.elementwise import add, corners
from onnx_passes.ops.ranges.site import RANGES, Site, counted
from onnx_passes.ops.rounding import MODES, bounds


class _Quantizer(NamedTuple):
    scale: np.ndarray
    zero: np.ndarray
    bits: np.ndarray
    signed: bool
    narrow: bool
    rounding: str

    def integers(self, x: np.ndarray, kind: type[np.floating]) -> np.ndarray:
        """Return the integers of values, computed in a type of floats."""
        scale, zero = self.scale.astype(kind), self.zero.astype(kind)
        with np.errstate(over="ignore", invalid="ignore"):
            y = x.astype(kind) / scale + zero
        if self.is_bipolar:
            return np.where(y >= 0, kind(1), kind(-1))
        return round_numpy(self.rounding, np.clip(y, *self.limits(kind)))

    def limits(self, kind: type[np.floating]) -> tuple[np.ndarray, np.ndarray]:
        return bounds(self.bits.astype(kind), signed=self.signed, narrow=self.narrow)

    @property
    def is_bipolar(self) -> bool:
        return self.signed and bool((self.bits == 1).all())


def _quant(site: Site) -> Range:
    x = site[0]
    bits, zero, scale = site.number(3), site.number(2), site.number(1)
    rounding = site.attr_text("rounding_mode", "ROUND").upper()
    signed, narrow = bool(site.attr_int("signed", 1)), bool(site.attr_int("narrow", 0))
    if bits is None or zero is None or rounding not in MODES or (signed and (bits == 1).any() and (bits != 1).any()):
        return UNKNOWN
    if scale is None or (scale == 0).any():
        return _scaled_at_run_time(site[1], _Quantizer(np.ones(()), zero, bits, signed, narrow, rounding))
    quantizer = _Quantizer(scale, zero, bits, signed, narrow, rounding)
    if x.is_point:
        q = quantizer.integers(x.low, np.float32)
        grid = _grid(scale, zero, q, q)
        value = ((q - zero.astype(np.float32)) * scale.astype(np.float32)).astype(np.float64)
        return Range(value, value, grid)
    low, high = _ends(x, quantizer.integers)
    return _on_grid(scale, zero, low, high)


def _ends(x: Range, integers: Callable[[np.ndarray, type[np.floating]], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Quantize both ends of a range, in either precision: quantizers never fall, or never rise."""
    ends = [integers(end, kind).astype(np.float64) for end in (x.low, x.high) for kind in (np.float32, np.float64)]
    return spanned(ends)


def _grid(scale: np.ndarray, zero: np.ndarray, low: np.ndarray, high: np.ndarray) -> Grid | None:
    # A zero point of -0.0 must not make a bias of its own.
    return Grid.of(scale, 0.0 - scale * zero, low, high)


def _on_grid(scale: np.ndarray, zero: np.ndarray, low: np.ndarray, high: np.ndarray) -> Range:
    ends = (low - zero) * scale, (high - zero) * scale
    return _rounded_twice(np.minimum(*ends), np.maximum(*ends), _grid(scale, zero, low, high))


def _rounded_twice(low: np.ndarray, high: np.ndarray, grid: Grid | None) -> Range:
    """Leave room for a difference that is rounded before the product is, unless it is one of small integers."""
    centred = None if grid is None else grid.centred()
    if centred is not None and bool(
        (np.abs(centred.low) < EXACT_IN_FLOAT).all() and (np.abs(centred.high) < EXACT_IN_FLOAT).all()
    ):
        return Range(low, high, grid)
    slack = 2.0**-23
    return Range(low - np.abs(low) * slack, high + np.abs(high) * slack, grid)


def _scaled_at_run_time(scale: Range, quantizer: _Quantizer) -> Range:
    low, high = quantizer.limits(np.float64)
    if quantizer.is_bipolar:
        low, high = -np.ones(()), np.ones(())
    integers = Range.of(np.floor(low) - quantizer.zero, np.ceil(high) - quantizer.zero)
    return _rounded_twice(*corners(integers, scale, np.multiply), None)


def by_grid(site: Site) -> Range:
    """Find the range of any quantizer: what it makes of constants, or all levels that it has."""
    quantizer = quantizer_of(site.node)
    grid = None if quantizer is None else quantizer.grid(site.node)
    if grid is None:
        return UNKNOWN
    definition, given = definition_of(site.node), [site.number(index) for index in range(len(site.ranges))]
    held = [array.astype(np.float32) for array in given if array is not None]
    if definition is not None and len(held) == len(given):
        value = definition.compute(held, definition.checked(site.node)).astype(np.float64)
        q = np.rint(value / grid.scale + grid.zero)
        return Range(value, value, _grid(grid.scale, grid.zero, q, q))
    return _on_grid(grid.scale, grid.zero, np.array(float(grid.low)), np.array(float(grid.high)))


def _bipolar_quant(site: Site) -> Range:
    x, scale = site[0], site.number(1)
    low, high = np.where(x.low >= 0, 1.0, -1.0), np.where(x.high >= 0, 1.0, -1.0)
    if scale is None or (scale == 0).any():
        return Range(*corners(Range(low, high), site[1], np.multiply))
    ends = low * scale, high * scale
    if x.is_point:
        return Range(ends[0], ends[0], Grid.of(scale, np.zeros(()), low, low))
    return Range(np.minimum(*ends), np.maximum(*ends), Grid.of(scale, np.zeros(()), low, high))


def _trunc(site: Site) -> Range:
    return _trunc_to_scale(site) if len(site.ranges) > 5 else _trunc_bits(site)


def _trunc_bits(site: Site) -> Range:
    """Drop the lowest bits, and keep the scale: the value becomes smaller."""
    scale, zero, before, after = (site.number(index) for index in range(1, 5))
    rounding = site.attr_text("rounding_mode", "FLOOR").upper()
    if scale is None or zero is None or before is None or after is None or rounding not in MODES or (scale == 0).any():
        return UNKNOWN
    divisor = np.exp2(before - after)

    def integers(x: np.ndarray, kind: type[np.floating]) -> np.ndarray:
        whole = np.rint(x.astype(kind) / scale.astype(kind) + zero.astype(kind))
        return round_numpy(rounding, whole / divisor.astype(kind))

    return _on_grid(scale, zero, *_ends(site[0], integers))


def _trunc_to_scale(site: Site) -> Range:
    scale, zero, _, new_scale, bits = (site.number(index) for index in range(1, 6))
    rounding = site.attr_text("rounding_mode", "FLOOR").upper()
    if scale is None or zero is None or new_scale is None or bits is None or rounding not in MODES:
        return UNKNOWN
    if (scale == 0).any() or (new_scale == 0).any() or ((new_scale / scale) <= 0).any():
        return UNKNOWN
    divisor = np.exp2(np.rint(np.log2(new_scale / scale)))
    limits = bounds(bits, signed=bool(site.attr_int("signed", 1)), narrow=bool(site.attr_int("narrow", 0)))

    def integers(x: np.ndarray, kind: type[np.floating]) -> np.ndarray:
        whole = np.rint(x.astype(kind) / scale.astype(kind) + zero.astype(kind))
        return round_numpy(rounding, np.clip(whole / divisor.astype(kind), *limits))

    return _on_grid(new_scale, zero / divisor, *_ends(site[0], integers))


def _float_quant(site: Site) -> Range:
    scale, exponent, mantissa, bias, largest = (site.number(index) for index in range(1, 6))
    x = site[0]
    if scale is None or exponent is None or mantissa is None or bias is None or largest is None:
        return UNKNOWN
    if not site.attr_int("saturation", 1):
        return UNKNOWN
    most = np.minimum(largest, (2 - np.exp2(-mantissa)) * np.exp2(np.exp2(exponent) - 1 - bias)) * np.abs(scale)
    # Rounding moves a value by less than the distance to its neighbours.
    step = np.exp2(-mantissa) * np.maximum(x.size, np.exp2(1 - bias) * np.abs(scale))
    with np.errstate(invalid="ignore"):
        low, high = np.clip(x.low - step, -most, most), np.clip(x.high + step, -most, most)
    return _rounded_twice(low, high, None)


def _quantize_linear(site: Site) -> Range:
    x = site[0]
    scale, zero = _along_axis(site, 1), _along_axis(site, 2) if site.has(2) else np.zeros(())
    limits = integer_limits(site.node.outputs[0].dtype or _zero_type(site))
    if limits is None or scale is None or zero is None or (scale == 0).any() or site.attr_int("block_size", 0):
        return UNKNOWN

    def integers(values: np.ndarray, kind: type[np.floating]) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip(np.rint(values.astype(kind) / scale.astype(kind)) + zero, *limits)

    low, high = _ends(x, integers)
    return Range(low, high, Grid.integers(low, high))


def _zero_type(site: Site) -> ir.DataType | None:
    zero = site.value(2)
    return ir.DataType.UINT8 if zero is None else zero.dtype


def _dequantize_linear(site: Site) -> Range:
    q, scale = site[0].integer_grid, _along_axis(site, 1)
    zero = _along_axis(site, 2) if site.has(2) else np.zeros(())
    if q is None or scale is None or zero is None or (scale == 0).any() or site.attr_int("block_size", 0):
        return UNKNOWN
    low, high = q.low.astype(np.float64), q.high.astype(np.float64)
    if bool((scale == 1).all()):
        # The zero point moves into the integers, so that the result is known to hold integers itself.
        low, high, zero = low - zero, high - zero, np.zeros(())
    if q.is_point:
        value = ((low - zero).astype(np.float32) * scale.astype(np.float32)).astype(np.float64)
        return Range(value, value, _grid(scale, zero, low, low))
    return _on_grid(scale, zero, low, high)


def _along_axis(site: Site, index: int) -> np.ndarray | None:
    """Return a scale or zero point, put along the axis that it is for."""
    array, rank = site.number(index), site.rank()
    if array is None or array.size == 1:
        return None if array is None else array.reshape(())
    axis = counted(site.attr_int("axis", 1), rank)
    if axis is None or rank is None or array.ndim != 1:
        return of_rank(array, rank or 0)
    return along(array, axis, rank)


def _quantize_dynamically(site: Site) -> list[Range | None]:
    return [Range.integers(0, 255), Range.of(0, math.inf), Range.integers(0, 255)]


RANGES.attach(
    {
        "BipolarQuant": _bipolar_quant,
        "FloatQuant": _float_quant,
        "IntQuant": _quant,
        "Quant": _quant,
        "Trunc": _trunc,
    },
    domains=GENERAL_DOMAINS,
)
RANGES.attach(
    {
        "DequantizeLinear": _dequantize_linear,
        "DynamicQuantizeLinear": _quantize_dynamically,
        "QuantizeLinear": _quantize_linear,
    }
)
RANGES.attach(
    {"DequantizeLinear": _dequantize_linear, "QuantizeLinear": _quantize_linear}, domains=(CONTRIBUTED_DOMAIN,)
)

_MOST_COMPARISONS = 2**22


def _multi_threshold(site: Site) -> Range:
    """Count the thresholds that both ends of the range have reached."""
    x, steps, shape, rank = site[0], constant(site.value(1)), site.shape(1), site.rank()
    scale, bias = site.attr_float("out_scale", 1.0), site.attr_float("out_bias", 0.0)
    if shape is None or len(shape) != 2:
        return UNKNOWN
    low, high = np.zeros(()), np.full((), float(shape[1]))
    if steps is not None and rank is not None:
        low, high = _reached(x, steps, _channel_axis(site, rank, shape[0]), rank)
    if scale == int(scale) and bias == int(bias):
        return Range.integers(
            np.minimum(scale * low, scale * high) + bias, np.maximum(scale * low, scale * high) + bias
        )
    found = Range.integers(low, high)
    slack = (abs(scale) * high + abs(bias)) * 2.0**-22
    low, high = np.minimum(scale * low, scale * high) + bias, np.maximum(scale * low, scale * high) + bias
    grid = None if found.grid is None or not scale else found.grid.scaled(np.asarray(scale))
    return Range(low - slack, high + slack, None if grid is None else grid.shifted(np.asarray(bias)))


def _reached(x: Range, steps: np.ndarray, axis: int | None, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many thresholds both ends of the range have reached: of each element, unless that takes too long."""
    if axis is None and len(steps) > 1:
        ends = x.overall()
        counts = [(end >= steps).sum(axis=1).astype(np.float64) for end in (ends.low, ends.high)]
        return counts[0].min(), counts[1].max()
    if x.low.size * steps.shape[1] > _MOST_COMPARISONS:
        x = x.joined([other for other in range(rank) if other != axis])
    placed = steps[0] if axis is None else steps[along(np.arange(len(steps)), axis, rank)]
    low, high = ((end[..., None] >= placed).sum(axis=-1).astype(np.float64) for end in (x.low, x.high))
    return low, high


def _channel_axis(site: Site, rank: int, channels: int) -> int | None:
    """Return the axis that the rows of thresholds belong to; nothing where it makes no difference, or is not clear."""
    layout = site.attr_text("data_layout", "")
    if channels == 1:
        return None
    if layout:
        return rank - 1 if layout.endswith("C") else counted(1, rank)
    if rank != 3:
        return counted(1, rank)
    # Versions of QONNX differ in which axis they mean.
    dims = site.dims() or []
    fitting = [axis for axis in (1, 2) if dims[axis] == channels]
    return fitting[0] if len(fitting) == 1 else None


def _weighted_multi_threshold(site: Site) -> Range:
    """Follow the sum of the weights over all thresholds within the range, which may go up and down."""
    x, steps = site[0], constant(site.value(1))
    weights = constant(site.value(2)) if site.has(2) else np.ones(1)
    bias = site.attr_float("out_bias", 0.0)
    if steps is None or weights is None or site.rank() is None or np.isnan(steps).any() or not steps.shape[-1]:
        return UNKNOWN
    order = np.argsort(steps, axis=-1, kind="stable")
    sums = np.cumsum(np.take_along_axis(np.broadcast_to(weights, steps.shape).astype(np.float64), order, -1), axis=-1)
    ordered = np.take_along_axis(steps.astype(np.float64), order, -1)
    reached = (x.low[..., None] >= ordered).sum(-1, keepdims=True)
    everywhere = np.broadcast_to(sums, (*np.broadcast_shapes(x.low.shape, sums.shape[:-1]), sums.shape[-1]))
    start = np.where(reached > 0, np.take_along_axis(everywhere, np.maximum(reached - 1, 0), -1), 0.0)
    possible = (x.low[..., None] < ordered) & (x.high[..., None] >= ordered)
    low = np.minimum(start, np.where(possible, sums, np.inf).min(-1, keepdims=True))[..., 0]
    high = np.maximum(start, np.where(possible, sums, -np.inf).max(-1, keepdims=True))[..., 0]
    height = np.abs(np.broadcast_to(weights, steps.shape)).sum(axis=-1, dtype=np.float64).max(initial=0.0)
    slack = float(height) * (steps.shape[-1] * 2.0**-23)
    return add(_weighed(low, high, weights.astype(np.float64), slack), Range.point(np.asarray(bias)))


def _weighed(low: np.ndarray, high: np.ndarray, weights: np.ndarray, slack: float) -> Range:
    if (weights == np.rint(weights)).all() and slack < 1:
        return Range.integers(low, high)
    step = weights.reshape(-1)[0]
    grid = None
    if step and (weights == step).all():
        ends = np.rint(low / step), np.rint(high / step)
        grid = Grid.of(np.asarray(step), np.zeros(()), np.minimum(*ends), np.maximum(*ends))
    return Range(low - slack, high + slack, grid)


RANGES.attach({"MultiThreshold": _multi_threshold}, domains=QONNX_DOMAINS)
RANGES.attach({"MultiThreshold": _weighted_multi_threshold}, domains=(OUR_DOMAIN,))
