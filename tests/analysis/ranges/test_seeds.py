from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.range_text import parse_inputs
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.core.errors import UsageError
from onnx_passes.datatypes import parse
from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.numbers.range import Range


def model_of(kind: str = "float") -> ir.Model:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": 18]> g ({kind}[2] x) => ({kind}[2] y) {{ y = Identity (x) }}'
    )


def ends(model: ir.Model, **inputs: object) -> tuple[float, float]:
    found = ranges_of(model, inputs)[model.graph.outputs[0]]  # pyright: ignore[reportArgumentType]
    return found.low.item(), found.high.item()


def test_the_data_type_of_an_input_is_its_range() -> None:
    model = model_of()
    set_datatype(model.graph.inputs[0], "INT3")
    assert ends(model) == (-4, 3)
    assert ends(model, x="UINT2") == (0, 3)
    assert ends(model, x=(-1.5, 9.0)) == (-1, 3)
    assert ends(model, x=parse("BIPOLAR")) == (-1, 1)
    assert ends(model, x=Range.of(0.5, 0.5)) == (0.5, 0.5)


def test_fixed_point_inputs_are_on_a_grid() -> None:
    model = model_of()
    found = ranges_of(model, {"x": "FIXED<4,2>"})[model.graph.inputs[0]]
    assert found.grid is not None
    assert (found.grid.scale.item(), found.grid.low.item(), found.grid.high.item()) == (0.25, -8, 7)


@pytest.mark.parametrize(("kind", "expected"), [("uint8", (0, 255)), ("int8", (-128, 127)), ("bool", (0, 1))])
def test_integer_inputs_have_the_range_of_their_type(kind: str, expected: tuple[int, int]) -> None:
    assert ends(model_of(kind)) == expected


def test_wide_integers_have_no_grid() -> None:
    model = model_of("int64")
    assert ranges_of(model)[model.graph.inputs[0]].grid is None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"y": (0.0, 1.0)}, "no input is called 'y'"),
        ({"x": (1.0, 0.0)}, "empty"),
        ({"x": (float("nan"), 0.0)}, "empty"),
        ({"x": "FLOAT32"}, "FLOAT32"),
        ({"x": "INT"}, "INT"),
    ],
)
def test_refuses_what_is_no_range_of_an_input(inputs: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ranges_of(model_of(), inputs)  # pyright: ignore[reportArgumentType]


def test_refuses_a_range_without_a_value_of_the_data_type() -> None:
    model = model_of()
    set_datatype(model.graph.inputs[0], "UINT2")
    with pytest.raises(UsageError, match="no value"):
        ranges_of(model, {"x": (4.0, 9.0)})


def test_inputs_are_read_from_text() -> None:
    assert parse_inputs("x=0:255, y=INT4 a=b=:1") == {"x": (0, 255), "y": "INT4", "a=b": (-np.inf, 1)}
    assert parse_inputs("") == {}


@pytest.mark.parametrize("text", ["x", "=0:1", "x=a:b"])
def test_refuses_text_that_says_nothing_of_an_input(text: str) -> None:
    with pytest.raises(UsageError):
        parse_inputs(text)
