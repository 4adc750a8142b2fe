"""Trunc in both versions; the expected numbers in the tables are those of QONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.describe import expand_nodes
from onnx_passes.ops.rounding import MODES
from onnx_passes.ops.trunc import Trunc, TruncToBits
from tests.ops.tools import assert_computes, assert_same, one_node, results

NAN, INF = np.nan, np.inf
OPSETS = (9, 11, 13, 18, 23)
X = np.array([100, -100, 3, -3, -0.3, NAN, INF, -0.0], np.float32)


def f32(number: Any) -> np.ndarray:
    return np.array(number, np.float32)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("parameters", "mode", "expected"),
    [
        ((1, 0, 10, 4), None, [1, -2, 0, -1, -0.0, NAN, INF, 0]),
        ((0.5, 3, 8, 6), "ROUND", [24, -26, -0.5, -2, -1.5, NAN, INF, -1]),
    ],
)
def test_first_version_keeps_the_scale(
    parameters: tuple[float, ...], mode: str | None, expected: list[float], opset: int, *, fed: bool
):
    attributes = {} if mode is None else {"rounding_mode": mode}
    model = one_node(TruncToBits, X, *map(f32, parameters), opset=opset, fed=fed, **attributes)
    assert_computes(model, X, f32(expected))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("parameters", "attributes", "expected"),
    [
        ((1, 0, 10, 64, 4), {}, [64, -128, 0, -64, -0.0, NAN, 448, 0]),
        (
            (0.5, 3, 8, 2, 4),
            {"signed": 0, "rounding_mode": "round"},
            [28.5, -1.5, 2.5, -1.5, -1.5, NAN, 28.5, 0.5],
        ),
        ((1, 0, 8, 1, 1), {}, [0, -1, 0, -1, -0.0, NAN, 0, 0]),
        ((1, 0, 8, 3, 4), {"signed": 0, "narrow": 1}, [42, 0, 0, 0, -0.0, NAN, 42, 0]),
    ],
)
def test_second_version_has_a_scale_and_a_range_of_its_own(
    parameters: tuple[float, ...], attributes: dict[str, Any], expected: list[float], opset: int, *, fed: bool
):
    model = one_node(Trunc, X, *map(f32, parameters), opset=opset, fed=fed, **attributes)
    assert_computes(model, X, f32(expected))


def test_each_channel_has_its_own_scale_and_bits():
    x = np.tile(f32([100, -100, 3]), (2, 1))
    model = one_node(Trunc, x, f32([[1], [0.5]]), f32(0), f32(10), f32([[64], [4]]), f32([[4], [3]]))
    assert_computes(model, x, f32([[64, -128, 0], [12, -16, 0]]))


@pytest.mark.parametrize("fed", [False, True])
def test_doubles_are_computed_as_such(*, fed: bool):
    x = np.array([100.0, -100.0, 1e300])
    model = one_node(Trunc, x, *map(np.array, (1.0, 0.0, 10.0, 64.0, 4.0)), fed=fed)
    assert_computes(model, x, np.array([64.0, -128.0, 448.0]))


@pytest.mark.parametrize(("inputs", "version"), [(5, TruncToBits), (6, Trunc)])
def test_the_number_of_inputs_tells_the_version(inputs: int, version: type):
    node = ir.Node("qonnx.custom_op.general", "Trunc", [ir.Value() for _ in range(inputs)])
    assert type(definition_of(node)) is version


@pytest.mark.parametrize(
    ("inputs", "message"), [(4, "needs its input 'out_bitwidth'"), (7, "takes 6 inputs, but has 7")]
)
def test_refuses_other_numbers_of_inputs(inputs: int, message: str):
    model = one_node(Trunc, X, *[f32(1)] * (inputs - 1))
    with pytest.raises(ModelError, match=message):
        expand_nodes(model)


SCALES = st.sampled_from([1.0, 0.5, 2.0**-7, np.float32(0.1), np.float32(-0.3)])


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(OPSETS), st.booleans(), st.sampled_from(MODES))
def test_all_ways_agree(data: st.DataObject, opset: int, fed: bool, mode: str):
    def parameter(*numbers: float) -> np.ndarray:
        shape = data.draw(st.sampled_from([(), (3,), (2, 1)]))
        return data.draw(arrays.arrays(np.float32, shape, elements=st.sampled_from(numbers)))

    steps = st.integers(-400, 400).map(lambda n: n / 2)
    x = data.draw(arrays.arrays(np.float32, (2, 3), elements=st.one_of(steps, st.floats(width=32))))
    scale = data.draw(SCALES)
    parameters = [f32(scale), parameter(0.0, 3.0, -0.5), parameter(8.0, 10.0)]
    attributes: dict[str, Any] = {"rounding_mode": mode}
    definition = data.draw(st.sampled_from([Trunc, TruncToBits]))
    if definition is Trunc:
        parameters.append(f32(scale) * parameter(1.0, 4.0, 0.5, 3.0))
        attributes |= {"signed": data.draw(st.integers(0, 1)), "narrow": data.draw(st.integers(0, 1))}
    parameters.append(parameter(1.0, 4.0, 8.0))
    model = one_node(definition, x, *parameters, opset=opset, fed=fed, **attributes)
    found = results(model, x)
    for way, array in found.items():
        assert_same(array, found["numpy"], way)
