"""FloatQuant; the expected numbers in the tables are those of QONNX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.float_quant import FloatQuant
from onnx_passes.ops.rounding import MODES
from tests.ops.tools import assert_computes, assert_same, one_node, results

NAN, INF = np.nan, np.inf
OPSETS = (9, 11, 13, 18, 23)
E4M3 = (1, 4, 3, 7, 448)
LARGE = [500, -500]
X = np.array(
    [0.1, -0.1, 1.0625, 1.1875, *LARGE, 448, 2**-10, 1.5 * 2**-10, 0, -0.0, NAN, INF, -INF, 17, 19], np.float32
)


def f32(number: Any) -> np.ndarray:
    return np.array(number, np.float32)


def model_of(x: np.ndarray, parameters: Any = E4M3, **attributes: Any):
    return one_node(FloatQuant, x, *map(f32, parameters), **attributes)


def expected(large: list[float], *, tenth: float = 0.1015625) -> np.ndarray:
    rest = [448, 0, 2**-9, 0, -0.0, NAN, NAN, NAN, 16, 20]
    return f32([tenth, -0.1015625, 1, 1.25, *large, *rest])


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("attributes", "large"),
    [
        ({}, [448, -448]),
        ({"saturation": 0, "has_inf": 1}, [INF, -INF]),
        ({"saturation": 0, "has_infinity": 1}, [INF, -INF]),
        ({"saturation": 0, "has_nan": 1}, [NAN, NAN]),
        ({"saturation": 0, "has_inf": 1, "has_nan": 1}, [INF, -INF]),
        ({"has_subnormal": 0}, [448, -448]),
    ],
)
def test_large_and_special_values(attributes: dict[str, int], large: list[float], opset: int, *, fed: bool):
    assert_computes(model_of(X, opset=opset, fed=fed, **attributes), X, expected(large))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    ("mode", "numbers"),
    [("FLOOR", [0.09375, -0.1015625, 1, 1.125, 18]), ("UP", [0.1015625, -0.1015625, 1.125, 1.25, 20])],
)
def test_other_ways_of_rounding(mode: str, numbers: list[float], opset: int):
    x = X[[0, 1, 2, 3, -1]]
    assert_computes(model_of(x, rounding_mode=mode, opset=opset), x, f32(numbers))


def test_is_the_cast_to_small_floats():
    codes = np.arange(256, dtype=np.uint8)
    for dtype, parameters in ((ml_dtypes.float8_e4m3fn, E4M3), (ml_dtypes.float8_e5m2, (1, 5, 2, 15, 57344))):
        numbers = codes.view(dtype).astype(np.float32)
        ends = np.sort(numbers[np.isfinite(numbers)])
        between = (ends[1:] + ends[:-1]) / 2
        x = np.concatenate([ends, between, np.nextafter(between, f32(INF)), np.nextafter(between, f32(-INF))])
        assert_computes(model_of(x, parameters), x, x.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "DOWN", "UP"])
@pytest.mark.parametrize("opset", [9, 13])
def test_exponents_are_exact(mode: str, opset: int):
    """All numbers fit into the widest format, so each must come back; around powers of two of every exponent."""
    powers = np.ldexp(f32(1), np.arange(-126, 128)).view(np.int32)
    x = (powers[:, None] + np.arange(-2, 3)).astype(np.int32).view(np.float32).ravel()
    x = np.concatenate([x, -x])
    x = x[np.abs(x) >= np.finfo(np.float32).tiny]
    model = model_of(x, (1, 8, 24, 127, np.finfo(np.float32).max), rounding_mode=mode, opset=opset)
    far = np.abs(x) >= 2.0**-100
    for way, array in results(model, x).items():
        assert_same(array[far], x[far], way)


def test_just_below_a_power_of_two_the_grid_is_the_finer_one():
    x = np.nextafter(f32([0.0625, 8, 256]), f32(0))
    assert_computes(model_of(x, rounding_mode="FLOOR"), x, f32([0.0625, 8, 256]) * f32(15 / 16))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
def test_doubles_are_computed_as_such(opset: int, *, fed: bool):
    x = np.array([0.1, -500, 2.0**-300, 1e300, NAN, -0.0])
    parameters = [np.array(number, np.float64) for number in (1, 11, 3, 1023, 1e308)]
    model = one_node(FloatQuant, x, *parameters, opset=opset, fed=fed)
    assert_computes(model, x, np.array([0.1015625, -512, 2.0**-300, 12 * 2.0**993, NAN, -0.0]))


def test_half_precision_is_computed_in_single():
    x = np.array([0.1, -0.1, 500, 1.1875], np.float16)
    assert_computes(model_of(x), x, np.array([0.1015625, -0.1015625, 448, 1.25], np.float16))


def test_refuses_to_overflow_into_nothing():
    with pytest.raises(ModelError, match="nothing to make of large values; give it saturation, has_inf or has_nan"):
        expand_nodes(model_of(X, saturation=0))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(OPSETS), st.booleans(), st.sampled_from(MODES))
def test_all_ways_agree(data: st.DataObject, opset: int, fed: bool, mode: str):
    def parameter(*numbers: float) -> np.ndarray:
        shape = data.draw(st.sampled_from([(), (3,), (2, 1)]))
        return data.draw(arrays.arrays(np.float32, shape, elements=st.sampled_from(numbers)))

    x = data.draw(arrays.arrays(np.float32, (2, 3), elements=st.floats(width=32)))
    parameters = [
        parameter(1.0, 0.5, np.float32(0.1), np.float32(-3.3)),
        parameter(2.0, 4.0, 5.0, 8.0),
        parameter(0.0, 2.0, 3.0, 10.0),
        parameter(1.0, 7.0, 15.0, 127.0),
        parameter(448.0, 1e9, np.finfo(np.float32).max),
    ]
    names = ("saturation", "has_inf", "has_nan")
    flags = data.draw(st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1)]))
    model = one_node(
        FloatQuant, x, *parameters, opset=opset, fed=fed, rounding_mode=mode, **dict(zip(names, flags, strict=True))
    )
    found = results(model, x)
    for way, array in found.items():
        assert_same(array, found["numpy"], way)
