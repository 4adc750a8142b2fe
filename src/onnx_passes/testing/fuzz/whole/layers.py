"""Layers of quantized networks, as QONNX, QDQ, integer operators and thresholds write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.testing.fuzz.draws import UnbuildableError
from onnx_passes.testing.fuzz.site import Built
from onnx_passes.testing.fuzz.values import Shape
from onnx_passes.testing.fuzz.whole.growth import Growth

Layer = Callable[[Growth], None]
_GENERAL = "qonnx.custom_op.general"
_FLOAT = ir.DataType.FLOAT
_INTEGERS = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}


def _random(growth: Growth) -> np.random.Generator:
    return np.random.default_rng(growth.draws.number(0, 2**16))


def _float(growth: Growth, *, least_rank: int = 0) -> Built:
    """Choose a computed float."""
    known = [v for v in growth.pool if v.dtype is _FLOAT and len(v.shape) >= least_rank and math.prod(v.shape)]
    return growth.recent(known)


def _scales(growth: Growth, random: np.random.Generator, shape: Shape) -> np.ndarray:
    """Draw scales: powers of two, or any."""
    if growth.draws.happens(percent=60):
        return (2.0 ** random.integers(-3, 1, shape)).astype(np.float32)
    return random.uniform(0.05, 0.8, shape).astype(np.float32)


def _along(value: Built, channel: int, growth: Growth) -> Shape:
    """Return the shape of parameters that broadcast: a scalar, or one for each channel."""
    if len(value.shape) < 2 or growth.draws.happens(percent=60):
        return ()
    return tuple(size if axis == channel % len(value.shape) else 1 for axis, size in enumerate(value.shape))


def _quantized(growth: Growth, value: Built, *, channel: int = 1) -> Built:
    """Quantize a value in one of the usual forms."""
    how = growth.draws.freely((_quant, _quant, _quant, _qdq, _qdq, _qcdq, _bipolar))
    return how(growth, value, channel)


def _quant(growth: Growth, value: Built, channel: int) -> Built:
    random, draws = _random(growth), growth.draws
    scale = growth.constant(_scales(growth, random, _along(value, channel, growth)))
    zero = growth.constant(np.array(draws.freely((0, 0, 0, 1)), np.float32))
    bits = growth.constant(np.array(draws.freely((2, 3, 4, 8)), np.float32))
    attributes: dict[str, Any] = {
        "signed": draws.number(0, 1),
        "narrow": draws.number(0, 1),
        "rounding_mode": draws.freely(("ROUND", "ROUND", "ROUND", "FLOOR", "CEIL")),
    }
    return growth.node("Quant", [value, scale, zero, bits], value.shape, domain=_GENERAL, **attributes)


def _bipolar(growth: Growth, value: Built, channel: int) -> Built:
    scale = growth.constant(_scales(growth, _random(growth), ()))
    return growth.node("BipolarQuant", [value, scale], value.shape, domain=_GENERAL)


def _parameters(growth: Growth, value: Built, channel: int, dtype: ir.DataType) -> tuple[Built, Built, dict[str, Any]]:
    """Make scale and zero point of a value for the ONNX operators."""
    random, draws = _random(growth), growth.draws
    per_axis = len(value.shape) >= 2 and draws.happens(percent=30)
    shape = (value.shape[channel % len(value.shape)],) if per_axis else ()
    low, high = _INTEGERS[dtype]
    zeros = random.integers(low, high, shape) if draws.happens(percent=40) else np.zeros(shape)
    scale = growth.constant(_scales(growth, random, shape))
    zero = growth.constant(np.asarray(zeros).astype(dtype.numpy()))
    return scale, zero, {"axis": channel % len(value.shape)} if per_axis else {}


def _qdq(growth: Growth, value: Built, channel: int, *, clips: bool = False) -> Built:
    dtype = growth.draws.freely(tuple(_INTEGERS))
    scale, zero, axis = _parameters(growth, value, channel, dtype)
    integers = growth.node("QuantizeLinear", [value, scale, zero], value.shape, dtype, **axis)
    if clips:
        low, high = _INTEGERS[dtype]
        bounds = [growth.constant(np.array(bound, dtype.numpy())) for bound in (low // 8, high // 8)]
        integers = growth.node("Clip", [integers, *bounds], value.shape, dtype)
    return growth.node("DequantizeLinear", [integers, scale, zero], value.shape, _FLOAT, **axis)


def _qcdq(growth: Growth, value: Built, channel: int) -> Built:
    return _qdq(growth, value, channel, clips=True)


def _weights(growth: Growth, shape: Shape, channel: int) -> Built:
    """Make quantized weights: quantized floats, or integers that are dequantized."""
    random, draws = _random(growth), growth.draws
    if draws.happens(percent=60):
        held = growth.constant(random.normal(0, 1, shape).astype(np.float32))
        return _quantized(growth, held, channel=channel)
    held = growth.constant(random.integers(-8, 8, shape).astype(np.int8))
    scale, zero, axis = _parameters(growth, held, channel, ir.DataType.INT8)
    return growth.node("DequantizeLinear", [held, scale, zero], shape, _FLOAT, **axis)


def _quantize(growth: Growth) -> None:
    _quantized(growth, _float(growth))


def _product(growth: Growth) -> None:
    value = _float(growth, least_rank=1)
    if len(value.shape) == 4 and min(value.shape[2:]) >= 2:
        _convolution(growth, value)
        return
    columns = growth.draws.freely((3, 4, 6))
    weights = _weights(growth, (value.shape[-1], columns), 1)
    made = growth.node("MatMul", [value, weights], (*value.shape[:-1], columns))
    if growth.draws.happens(percent=50):
        _biased(growth, made, (columns,))


def _convolution(growth: Growth, value: Built) -> None:
    draws, (batch, channels, height, width) = growth.draws, value.shape
    size, group = draws.freely((1, 2, min(3, height, width))), draws.freely((1, 1, channels))
    pad = draws.number(0, size // 2)
    weights = _weights(growth, (channels, channels // group, size, size), 0)
    bias = [growth.constant(_random(growth).normal(0, 1, channels).astype(np.float32))] * draws.number(0, 1)
    lost = size - 1 - 2 * pad
    growth.node(
        "Conv",
        [value, weights, *bias],
        (batch, channels, height - lost, width - lost),
        kernel_shape=[size, size],
        pads=[pad] * 4,
        group=group,
    )


def _biased(growth: Growth, value: Built, shape: Shape) -> Built:
    bias = growth.constant((_random(growth).integers(-8, 9, shape) / 8).astype(np.float32))
    return growth.node("Add", [value, bias], value.shape)


def _normalize(growth: Growth) -> None:
    value = _float(growth, least_rank=2)
    random, channels = _random(growth), value.shape[1]
    gamma = random.uniform(0.25, 2, channels) * random.choice([-1, 1, 1], channels)
    arrays = (gamma, random.normal(0, 1, channels), random.normal(0, 1, channels), random.uniform(0.25, 2, channels))
    held = [growth.constant(np.asarray(array, np.float32)) for array in arrays]
    growth.node("BatchNormalization", [value, *held], value.shape)


def _scale(growth: Growth) -> None:
    value = _float(growth)
    factor = growth.constant(_scales(growth, _random(growth), _along(value, 1, growth)))
    growth.node(growth.draws.freely(("Mul", "Mul", "Div", "Add", "Sub")), [value, factor], value.shape)


def _activate(growth: Growth) -> None:
    value = _float(growth)
    operator = growth.draws.freely(("Relu", "Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu"))
    bounds = [growth.constant(np.array(bound, np.float32)) for bound in (-1, 1)] if operator == "Clip" else []
    growth.node(operator, [value, *bounds], value.shape)


def _join(growth: Growth) -> None:
    value = _float(growth)
    growth.node(growth.draws.freely(("Add", "Add", "Mul")), [value, growth.like(_FLOAT, value.shape)], value.shape)


def _pool(growth: Growth) -> None:
    value = _float(growth, least_rank=4)
    if len(value.shape) != 4 or min(value.shape[2:]) < 2:
        raise UnbuildableError("there is nothing to pool")
    operator = growth.draws.freely(("MaxPool", "AveragePool", "GlobalAveragePool"))
    if operator == "GlobalAveragePool":
        growth.node(operator, [value], (*value.shape[:2], 1, 1))
        return
    sizes = [(size - 2) // 2 + 1 for size in value.shape[2:]]
    growth.node(operator, [value], (*value.shape[:2], *sizes), kernel_shape=[2, 2], strides=[2, 2])


def _move(growth: Growth) -> None:
    value = _float(growth, least_rank=2)
    if growth.draws.happens(percent=50):
        order = growth.draws.order(range(len(value.shape)))
        growth.node("Transpose", [value], tuple(value.shape[axis] for axis in order), perm=order)
        return
    flat = (value.shape[0], math.prod(value.shape[1:]))
    growth.node("Reshape", [value, growth.constant(np.array(flat))], flat)


def _thresholds(growth: Growth) -> None:
    value = _float(growth, least_rank=2)
    random, draws = _random(growth), growth.draws
    count = draws.freely((1, 3, 7))
    rows = value.shape[1] if draws.happens(percent=50) else 1
    steps = np.sort(random.integers(-16, 16, (rows, count)) / 4, axis=1).astype(np.float32)
    attributes: dict[str, Any] = {
        "out_scale": draws.freely((1.0, 1.0, 0.5)),
        "out_bias": draws.freely((0.0, 0.0, -2.0)),
    }
    layout: dict[str, Any] = {"data_layout": "NCHW"} if len(value.shape) == 4 else {}
    if len(value.shape) not in (2, 4):
        raise UnbuildableError("thresholds are for images and rows")
    growth.node("MultiThreshold", [value, growth.constant(steps)], value.shape, domain=_GENERAL, **attributes, **layout)


def _integer_product(growth: Growth) -> None:
    value = _float(growth, least_rank=2)
    scale, zero, _ = _parameters(growth, Built("", _FLOAT, ()), 0, ir.DataType.UINT8)
    integers = growth.node("QuantizeLinear", [value, scale, zero], value.shape, ir.DataType.UINT8)
    weights = growth.constant(_random(growth).integers(-8, 8, (value.shape[-1], 4)).astype(np.int8))
    shape = (*value.shape[:-1], 4)
    sums = growth.node("MatMulInteger", [integers, weights, zero], shape, ir.DataType.INT32)
    floats = growth.node("Cast", [sums], shape, _FLOAT, to=_FLOAT.value)
    growth.node("Mul", [floats, growth.constant(_scales(growth, _random(growth), ()))], shape)


LAYERS: tuple[Layer, ...] = (
    *(_quantize,) * 4,
    *(_product,) * 4,
    *(_normalize, _scale, _scale, _activate, _activate),
    *(_join, _pool, _move, _thresholds, _integer_product),
)
