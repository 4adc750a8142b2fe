"""Ranges of normalizations, and of functions of one value that are computed by approximation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from onnx_passes.numbers.grid import along
from onnx_passes.numbers.range import UNKNOWN, Range
from onnx_passes.ops.definition import CHANNELS_LAST_DOMAIN, CONTRIBUTED_DOMAIN
from onnx_passes.ops.ranges.elementwise import add, maximum, multiply
from onnx_passes.ops.ranges.site import RANGES, RangeRule, Site, axis_of
from onnx_passes.ops.semantics.batch_normalization import Normalization

_SLACK = 1e-4
"""Room for rounding in what is divided by a deviation."""


def _batch_normalization(site: Site) -> Sequence[Range | None]:
    return [_affine(site, 1)]


def _batch_normalization_last(site: Site) -> Sequence[Range | None]:
    return [_affine(site, -1)]


def _affine(site: Site, axis: int) -> Range:
    """Fold the statistics into a factor and an offset for each channel."""
    rank = site.rank()
    normal = Normalization.of(site.node, [site.number(index) for index in range(1, 5)])
    if rank is None or rank < 2 or isinstance(normal, str):
        return UNKNOWN
    factor, offset = along(normal.factor.near, axis, rank), along(normal.offset.near, axis, rank)
    x = site[0]
    found = add(multiply(x, Range(factor, factor)), Range(offset, offset))
    with np.errstate(invalid="ignore"):
        terms = np.nan_to_num(x.size * np.abs(factor), nan=0.0, posinf=math.inf)
    terms = (
        terms
        + np.abs(along((normal.mean * normal.factor).near, axis, rank))
        + np.abs(along(normal.shift.near, axis, rank))
    )
    slack = terms * (8 * site.unit)
    return Range(found.low - slack, found.high + slack, found.grid)


def _normalized(site: Site, count: int | None, gamma: Range, beta: Range, *, centred: bool) -> Range:
    """Bound the deviation of one of so many elements from their mean, in standard deviations.

    Runtimes subtract the square of the mean from the mean of the squares: the error of that can be all of a small
    variance, and only ``epsilon`` is left of it then. Some multiply before they subtract the mean, so that what is
    rounded there is divided by as little.
    """
    x = site[0]
    if count is None or count < 1 or not x.is_finite:
        return UNKNOWN
    most_x, units = float(x.size.max()), 2 * (count + 4) * site.unit if centred else 0.0
    error = most_x**2 * units
    epsilon = site.attr_float("epsilon", 1e-5)
    if epsilon <= 0:
        return UNKNOWN
    most = math.sqrt((count - 1 if centred else count) * max(1.0, error / epsilon)) * (1 + _SLACK) + _SLACK
    most += most_x * units / math.sqrt(epsilon)
    found = multiply(Range.of(-most, most), gamma)
    return add(found, beta).without_grid()


def _count(site: Site, axes: Sequence[int]) -> int | None:
    dims = site.dims() or []
    sizes = [dims[axis] for axis in axes]
    return (
        math.prod(size for size in sizes if isinstance(size, int)) if all(isinstance(s, int) for s in sizes) else None
    )


def _layer_normalization(site: Site) -> Sequence[Range | None]:
    axis, rank = axis_of(site, -1), site.rank()
    if axis is None or rank is None:
        return []
    beta = site[2] if site.has(2) else Range.of(0, 0)
    return [_normalized(site, _count(site, range(axis, rank)), site[1], beta, centred=True)]


def _rms_normalization(site: Site) -> Sequence[Range | None]:
    axis, rank = axis_of(site, -1), site.rank()
    if axis is None or rank is None:
        return []
    return [_normalized(site, _count(site, range(axis, rank)), site[1], Range.of(0, 0), centred=False)]


def _instance_normalization(site: Site) -> Range:
    rank = site.rank()
    if rank is None or rank < 3:
        return UNKNOWN
    gamma, beta = (_by_channel(site[index], rank) for index in (1, 2))
    return _normalized(site, _count(site, range(2, rank)), gamma, beta, centred=True)


def _by_channel(found: Range, rank: int) -> Range:
    return found.mapped(lambda array: along(array.reshape(-1), 1, rank))


def _softmax(site: Site) -> Range:
    return Range.of(0, 1 + 1e-6)


def _log_softmax(site: Site) -> Range:
    return Range.of(-math.inf, 1e-6)


def _hardmax(site: Site) -> Range:
    return Range.integers(0, 1)


RANGES.attach(
    {
        "BatchNormalization": _batch_normalization,
        "Hardmax": _hardmax,
        "InstanceNormalization": _instance_normalization,
        "LayerNormalization": _layer_normalization,
        "LogSoftmax": _log_softmax,
        "RMSNormalization": _rms_normalization,
        "Softmax": _softmax,
    }
)
RANGES.attach({"BatchNormalization": _batch_normalization_last}, domains=(CHANNELS_LAST_DOMAIN,))


_ULPS = 2e-6
"""Room for runtimes that approximate: relative, and absolute for values below 1."""
_FAR = 1e30

Function = Callable[[np.ndarray], np.ndarray]


def _erf(x: np.ndarray) -> np.ndarray:
    return cast(np.ndarray, np.vectorize(math.erf, otypes=[np.float64])(x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * x))


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _tanh_gelu(x: np.ndarray) -> np.ndarray:
    near = np.clip(x, -1e6, 1e6)
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (near + 0.044715 * near**3)))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x / 6 + 0.5, 0, 1)


def _rising(function: Function, low: float = -math.inf, high: float = math.inf) -> RangeRule:
    """Make the rule of a function that never falls and stays between limits."""
    return lambda site: _between(site[0], function, low, high)


def _valley(function: Function, bottom: float) -> RangeRule:
    """Make the rule of a function that falls to its least value, at ``bottom``, and rises from there."""

    def apply(site: Site) -> Range:
        a = site[0]
        least = function(np.asarray(bottom))
        ends = _at(function, a.low), _at(function, a.high)
        inside = (a.low <= bottom) & (a.high >= bottom)
        low = np.where(inside, least, np.minimum(*ends))
        return _loose(low, np.where(np.isinf(a.high), math.inf, np.maximum(*ends)))

    return apply


def _between(a: Range, function: Function, low: float, high: float) -> Range:
    found = _loose(_at(function, a.low), _at(function, a.high))
    return Range(np.clip(found.low, low, high), np.clip(found.high, low, high))


def _at(function: Function, x: np.ndarray) -> np.ndarray:
    """Evaluate, far out instead of at infinity."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result = function(np.clip(x, -_FAR, _FAR))
        large = np.isinf(x) & (np.abs(result) >= _FAR)
        return np.where(large, np.copysign(math.inf, result), result)


def _loose(low: np.ndarray, high: np.ndarray) -> Range:
    with np.errstate(invalid="ignore"):
        return Range(low - _ULPS * np.maximum(1, np.abs(low)), high + _ULPS * np.maximum(1, np.abs(high)))


def _elu(site: Site) -> Range:
    alpha = site.attr_float("alpha", 1.0)
    if alpha < 0:
        return UNKNOWN
    return _between(site[0], lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), -alpha, math.inf)


def _celu(site: Site) -> Range:
    alpha = site.attr_float("alpha", 1.0)
    if alpha <= 0:
        return UNKNOWN
    return _between(site[0], lambda x: np.where(x > 0, x, alpha * np.expm1(np.minimum(x / alpha, 0))), -alpha, math.inf)


def _selu(site: Site) -> Range:
    alpha, gamma = (
        site.attr_float("alpha", 1.67326319217681884765625),
        site.attr_float("gamma", 1.05070102214813232421875),
    )
    if alpha < 0 or gamma < 0:
        return UNKNOWN
    found = _between(
        site[0], lambda x: gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), -math.inf, math.inf
    )
    return Range(np.maximum(found.low, -alpha * gamma * (1 + _ULPS)), found.high)


def _hard_sigmoid(site: Site) -> Range:
    alpha, beta = site.attr_float("alpha", 0.2), site.attr_float("beta", 0.5)
    function: Function = lambda x: np.clip(alpha * x + beta, 0, 1)  # noqa: E731
    ends = _at(function, site[0].low), _at(function, site[0].high)
    found = _loose(np.minimum(*ends), np.maximum(*ends))
    return Range(np.clip(found.low, 0, 1), np.clip(found.high, 0, 1))


def _thresholded_relu(site: Site) -> Range:
    a, alpha = site[0], site.attr_float("alpha", 1.0)
    rest = maximum(a, Range.of(alpha, alpha))
    return Range(np.minimum(rest.low, 0.0), np.maximum(np.where(a.high > alpha, a.high, 0.0), 0.0))


def _gelu_rule(site: Site) -> Range:
    rule = _GELU[site.attr_text("approximate", "none") == "tanh"]
    return cast(Range, rule(site))


def _silu(site: Site) -> Range:
    if site.attr_float("alpha", 1.0) != 1.0:
        return UNKNOWN
    return cast(Range, _SILU(site))


def _log(site: Site) -> Range:
    if (site[0].low < 0).any():
        return UNKNOWN
    return _between(site[0], np.log, -math.inf, math.inf)


def _sqrt(site: Site) -> Range:
    a = site[0]
    return UNKNOWN if (a.low < 0).any() else Range(np.sqrt(a.low), np.sqrt(a.high))


def _reciprocal(site: Site) -> Range:
    a = site[0]
    if ((a.low <= 0) & (a.high >= 0)).any():
        return UNKNOWN
    found = _loose_relatively(1 / a.high, 1 / a.low)
    return Range(found.low, found.high, Range.point(1 / a.low).grid if a.is_point else None)


def _loose_relatively(low: np.ndarray, high: np.ndarray) -> Range:
    return Range(low - np.abs(low) * _ULPS, high + np.abs(high) * _ULPS)


def _wave(site: Site) -> Range:
    return Range.of(-1 - _ULPS, 1 + _ULPS)


_SILU = _valley(lambda x: x * _sigmoid(x), -1.2784645427610738)
_GELU = (_valley(_gelu, -0.7517915246935645), _valley(_tanh_gelu, -0.7524614220710162))

RANGES.attach(
    {
        "Celu": _celu,
        "Cos": _wave,
        "Elu": _elu,
        "Erf": _rising(_erf, -1 - _ULPS, 1 + _ULPS),
        "Exp": _rising(np.exp, 0),
        "FastGelu": _GELU[1],
        "Gelu": _gelu_rule,
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": _valley(_hard_swish, -1.5),
        "Log": _log,
        "Mish": _valley(lambda x: x * np.tanh(_softplus(x)), -1.192452838954134),
        "Reciprocal": _reciprocal,
        "Selu": _selu,
        "Sigmoid": _rising(_sigmoid, 0, 1 + _ULPS),
        "Silu": _silu,
        "Sin": _wave,
        "Softplus": _rising(_softplus, 0),
        "Softsign": _rising(lambda x: x / (1 + np.abs(x)), -1, 1),
        "Sqrt": _sqrt,
        "Swish": _silu,
        "Tanh": _rising(np.tanh, -1 - _ULPS, 1 + _ULPS),
        "ThresholdedRelu": _thresholded_relu,
        "Atan": _rising(np.arctan, -1.5708, 1.5708),
    }
)
RANGES.of("Gelu", domains=(CONTRIBUTED_DOMAIN,))(_gelu_rule)
