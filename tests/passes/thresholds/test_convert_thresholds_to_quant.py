"""Thresholds turn into quantizers where these say the same for every input."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.tensor_types import set_datatype
from onnx_passes.passes.thresholds.convert_thresholds_to_quant import ConvertThresholdsToQuant
from onnx_passes.passes.thresholds.infer_thresholds import InferThresholds
from onnx_passes.verify.run.execute import Executor
from tests.passes.tools import apply, model_of, notes_of, operators

INTEGERS = np.arange(-128, 128, dtype=np.float32).reshape(128, 2)


def counting(rows: str, thresholds: str, attributes: str = "", datatype: str | None = "INT8"):
    model = model_of(
        f"""g (float[128, 2] x) => (float[128, 2] y) <float[{rows}] t = {{{thresholds}}}> {{
            y = qonnx.custom_op.general.MultiThreshold <data_layout = "NC" {attributes}> (x, t)
        }}""",
        domains='"qonnx.custom_op.general": 1',
    )
    if datatype:
        set_datatype(model.graph.inputs[0], datatype)
    return model


@pytest.mark.parametrize(
    ("rows", "thresholds", "attributes", "expected"),
    [
        ("1, 3", "3, 5, 7", "", ["Sub", "Div", "Quant"]),
        ("1, 3", "1, 2, 3", "", ["Quant"]),
        ("1, 2", "-10, 7", "", ["Sub", "Div", "Quant"]),
        ("2, 3", "5, 3, 7, -20, 0, 20", "", ["Sub", "Div", "Quant"]),
        ("1, 3", "-1, 0, 1", ", out_bias = -2.0", ["Quant"]),
        ("1, 2", "-30, 30", ", out_bias = -1.0", ["Sub", "Div", "Quant"]),
        ("2, 1", "4.5, -3.0", ", out_scale = 2.0, out_bias = -1.0", ["Sub", "BipolarQuant"]),
        ("1, 1", "0", ", out_scale = 2.0, out_bias = -1.0", ["BipolarQuant"]),
    ],
)
def test_every_integer_has_the_same_level(rows: str, thresholds: str, attributes: str, expected: list[str]):
    model = counting(rows, thresholds, attributes)
    before = Executor().prepare(model).run({"x": INTEGERS})["y"]
    assert apply(ConvertThresholdsToQuant(), model)
    assert operators(model.graph) == expected
    np.testing.assert_array_equal(Executor().prepare(model).run({"x": INTEGERS})["y"], before)


@pytest.mark.parametrize(
    ("rows", "thresholds", "attributes", "datatype", "reason"),
    [
        ("1, 3", "3, 5, 8", "", "INT8", "evenly spaced"),
        ("1, 3", "3, 3, 3", "", "INT8", "evenly spaced"),
        ("1, 3", "0.5, 1.5, 2.5", "", "INT8", "evenly spaced"),
        ("1, 3", "3, 5, 7", "", None, "not known to be integer"),
        ("1, 4", "3, 5, 7, 9", "", "INT8", "data type"),
        ("1, 3", "3, 5, 7", ", out_bias = 1.0", "INT8", "data type"),
        ("1, 3", "3, 5, 7", ", out_scale = 0.5", "INT8", "data type"),
    ],
)
def test_refuses(rows: str, thresholds: str, attributes: str, datatype: str | None, reason: str):
    model = counting(rows, thresholds, attributes, datatype)
    assert any(reason in note for note in notes_of(ConvertThresholdsToQuant(), model))
    assert operators(model.graph) == ["MultiThreshold"]


def test_there_and_back():
    model = counting("1, 7", "-12, -8, -4, 0, 4, 8, 12", ", out_bias = -4.0")
    before = Executor().prepare(model).run({"x": INTEGERS})["y"]
    apply(ConvertThresholdsToQuant(), model)
    apply(InferThresholds(), model)
    assert operators(model.graph) == ["MultiThreshold"]
    np.testing.assert_array_equal(Executor().prepare(model).run({"x": INTEGERS})["y"], before)
