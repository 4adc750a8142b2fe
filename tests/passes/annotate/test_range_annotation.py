from __future__ import annotations

import json
from typing import Any

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.errors import UsageError

QUANT = """<ir_version: 10, opset_import: ["": 18, "qonnx.custom_op.general": 1]>
g (float[1,2] x) => (float[1,2] y)
<float[1,2] s = {0.5, 0.25}, float z = {0}, float b = {4}, float[2,2] w = {1, 2, 0, -1}> {
  q = qonnx.custom_op.general.Quant <signed = 0, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
  y = MatMul (q, w)
}"""


def annotated(text: str, pipeline: str = "range-annotation") -> dict[str, Any]:
    model = onnx_passes.apply(ir.from_onnx_text(text), pipeline).model
    values = [*model.graph.inputs, *model.graph.initializers.values(), *(v for n in model.graph for v in n.outputs)]
    return {
        value.name or "": json.loads(value.metadata_props["onnx_passes.range"])
        for value in values
        if "onnx_passes.range" in value.metadata_props
    }


def test_writes_bounds_and_grid_of_what_is_known() -> None:
    found = annotated(QUANT)
    assert set(found) == {"q", "y"}
    assert found["q"] == {
        "low": 0, "high": [7.5, 3.75], "scale": [0.5, 0.25], "bias": 0, "qlow": 0, "qhigh": 15, "axis": 1,
    }  # fmt: skip
    assert (found["y"]["scale"], found["y"]["qlow"], found["y"]["qhigh"]) == (0.25, [0, -15], [30, 60])


def test_takes_the_range_of_inputs_as_an_option() -> None:
    found = annotated(QUANT, "range-annotation{inputs='x=0:1'}")
    assert (found["x"]["low"], found["x"]["high"]) == (0, 1)
    assert found["q"]["qhigh"] == [2, 4]


def test_open_ends_are_null() -> None:
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    assert annotated(text) == {"y": {"low": 0, "high": None}}


def test_a_second_run_changes_nothing_and_another_range_replaces_the_first() -> None:
    model = onnx_passes.apply(ir.from_onnx_text(QUANT), "range-annotation{inputs='x=0:1'}").model
    again = onnx_passes.apply(model, "range-annotation{inputs='x=0:1'}")
    assert not again.modified
    other = onnx_passes.apply(again.model, "range-annotation")
    assert other.modified
    assert "onnx_passes.range" not in other.model.graph.inputs[0].metadata_props


@pytest.mark.parametrize("inputs", ["x", "z=0:1", "x=1:0", "x=FLOAT32"])
def test_refuses_what_is_no_range_of_an_input(inputs: str) -> None:
    with pytest.raises(UsageError):
        onnx_passes.apply(ir.from_onnx_text(QUANT), f"range-annotation{{inputs='{inputs}'}}")
