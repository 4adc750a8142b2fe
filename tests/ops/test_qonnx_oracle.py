"""Quantizers compute what QONNX computes, bit by bit; runs where QONNX is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onnx_passes.ops.definition import Definition
from onnx_passes.ops.float_quant import FloatQuant
from onnx_passes.ops.quant import BipolarQuant, Quant
from onnx_passes.ops.trunc import Trunc, TruncToBits
from tests.ops.tools import assert_computes, one_node

pytest.importorskip("qonnx")

MODES = ("ROUND", "HALF_EVEN", "ceil", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")
OPSETS = (9, 10, 11, 12, 13, 18, 23)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, 0.49999997, -0.49999997)
Case = tuple[type[Definition], list[np.ndarray], dict[str, Any], np.ndarray]


class Draw:
    """Draws the parameters of one case."""

    def __init__(self, seed: int, least_rank: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        rank = int(self.rng.integers(least_rank, 5))
        self.shape = tuple(int(n) for n in self.rng.integers(1, 6, rank))

    def one_of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def parameter(self, *choices: Any, alone: bool = False) -> np.ndarray:
        """Draw one number, or one for each channel."""
        rank = len(self.shape)
        channel = (1, self.shape[1], *(1,) * (rank - 2)) if rank >= 2 else self.shape
        shape = self.one_of((), (1,) * min(rank, 1)) if alone else self.one_of((), channel, (1,) * rank)
        count = int(np.prod(shape))
        return np.array([self.one_of(*choices) for _ in range(count)], np.float32).reshape(shape)

    def scale(self) -> np.ndarray:
        if self.rng.random() < 0.5:
            return self.parameter(1.0, 0.5, 2.0**-7, 4.0)
        return self.parameter(0.1, 1 / 3, 0.037, -0.25, -0.3, 1e-3, 7.7, 1e-30)

    def zero_point(self) -> np.ndarray:
        if self.rng.random() < 0.4:
            return self.parameter(0.0)
        return self.parameter(0.0, 3.0, -128.0, 0.5, -1.25, -0.0)

    def values(self, scale: np.ndarray, reach: float) -> np.ndarray:
        """Draw values on, between and around the steps, beyond the range, and special ones."""
        steps = self.rng.integers(-8, 9, self.shape) / self.one_of(1, 2, 4)
        wide = self.rng.normal(size=self.shape) * reach
        narrow = self.rng.normal(size=self.shape) * 3
        near = np.nextafter(steps.astype(np.float32), np.float32(self.one_of(-99, 99)))
        x = np.choose(self.rng.integers(0, 4, self.shape), [steps, wide, narrow, near]).astype(np.float32) * scale
        special = self.rng.choice(np.array(SPECIAL, np.float32), self.shape)
        return np.broadcast_to(np.where(self.rng.random(self.shape) < 0.2, special, x), self.shape).astype(np.float32)


def quant_case(seed: int) -> Case:
    from qonnx.custom_op.general.quant import quant

    draw = Draw(seed)
    bits = draw.parameter(*range(1, 33), 1, 2, 2.5, alone=True)
    signed, narrow, mode = draw.one_of(0, 1), draw.one_of(0, 1), draw.one_of(*MODES)
    scale, zero_point = draw.scale(), draw.zero_point()
    x = draw.values(scale, 2.0 ** min(float(bits.max()), 30))
    expected = quant(x, scale, zero_point, bits, signed, narrow, mode)
    attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
    return Quant, [x, scale, zero_point, bits], attributes, expected


def trunc_case(seed: int) -> Case:
    from qonnx.custom_op.general.trunc import trunc_v1, trunc_v2

    draw = Draw(seed)
    scale, zero_point, mode = draw.scale(), draw.zero_point(), draw.one_of(*MODES)
    in_bits, out_bits = draw.parameter(8, 10, 16), draw.parameter(2, 4, 8)
    x = draw.values(scale, 300)
    if draw.one_of(True, False):
        expected = trunc_v1(x, scale, zero_point, in_bits, out_bits, mode)
        return TruncToBits, [x, scale, zero_point, in_bits, out_bits], {"rounding_mode": mode}, expected
    signed, narrow = draw.one_of(0, 1), draw.one_of(0, 1)
    out_scale = np.float32(draw.one_of(1, 4, 2, 64, 0.5, 3)) * scale
    expected = trunc_v2(x, scale, zero_point, in_bits, narrow, signed, out_scale, out_bits, mode)
    attributes = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
    return Trunc, [x, scale, zero_point, in_bits, out_scale, out_bits], attributes, expected


def float_quant_case(seed: int) -> Case:
    from qonnx.custom_op.general.floatquant import compute_default_exponent_bias, compute_max_val, float_quant

    draw = Draw(seed, least_rank=1)
    exponent_bits, mantissa_bits = (np.float32(draw.one_of(*sizes)) for sizes in ((2, 3, 4, 5, 8), (0, 1, 2, 3, 7, 10)))
    bias = np.float32(compute_default_exponent_bias(exponent_bits) + draw.one_of(0, 0, 1, -3))
    largest = np.float32(draw.one_of(1, 0.9375, 2) * compute_max_val(exponent_bits, mantissa_bits, bias))
    scale, mode = draw.scale(), draw.one_of(*MODES)
    saturation, infinite, nan = draw.one_of((1, 0, 0), (1, 0, 1), (0, 1, 0), (0, 0, 1), (0, 1, 1))
    x = draw.values(scale, 2.0 ** draw.one_of(0, 5, 9, -5))
    if draw.one_of(True, False):
        x = np.ldexp(x, draw.rng.integers(-60, 60, x.shape)).astype(np.float32)
    # Nothing sits just below a power of two, where the logarithm of QONNX is not exact.
    x = np.where(np.frexp(np.abs(x / scale))[0] > 1 - 2.0**-18, np.float32(0), x).astype(np.float32)
    parameters = [np.asarray(given, np.float32) for given in (scale, exponent_bits, mantissa_bits, bias, largest)]
    expected = float_quant(
        x,
        scale,
        parameters[1],
        parameters[2],
        parameters[3],
        max_val=parameters[4],
        has_inf=bool(infinite),
        has_nan=bool(nan),
        has_subnormal=True,
        rounding_mode=mode,
        saturation=bool(saturation),
    )
    attributes = {"saturation": saturation, "has_inf": infinite, "has_nan": nan, "rounding_mode": mode}
    return FloatQuant, [x, *parameters], attributes, expected


def bipolar_case(seed: int) -> Case:
    from qonnx.custom_op.general.bipolar_quant import binary_quant

    draw = Draw(seed)
    scale = draw.scale()
    x = draw.values(scale, 3)
    return BipolarQuant, [x, scale], {}, binary_quant(x, scale)


MAKERS = (quant_case, trunc_case, float_quant_case, bipolar_case)


def check(case: Case, seed: int) -> None:
    definition, (x, *parameters), attributes, expected = case
    model = one_node(definition, x, *parameters, opset=OPSETS[seed % len(OPSETS)], fed=seed % 3 == 0, **attributes)
    assert_computes(model, x, np.asarray(expected).astype(np.float32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("make", MAKERS)
def test_computes_what_qonnx_computes(make):
    for seed in range(60):
        check(make(seed), seed)
