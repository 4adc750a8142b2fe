from __future__ import annotations

import json

import onnx_ir as ir

from onnx_passes import examples, load
from onnx_passes.analysis.statistics import summarize

MODEL = """
<ir_version: 8, opset_import: ["": 17, "local": 1], producer_name: "maker", producer_version: "3">
g (float[N, 4] x, bool cond, float[1] w) => (float[N, 4] y)
<float[1] w = {2.0}>
{
    scaled = local.Scale(x, w)
    y = If (cond) <
        then_branch = yes () => (float[N, 4] t) { t = Relu(scaled) },
        else_branch = no () => (float[N, 4] e) { e = Neg(scaled) }
    >
}
<domain: "local", opset_import: ["": 17]>
Scale (a, b) => (c) { c = Mul(a, b) }
"""


def test_summary_covers_subgraphs_functions_and_dynamic_dimensions():
    summary = summarize(ir.from_onnx_text(MODEL))
    assert summary.size.operators == {"local::Scale": 1, "If": 1, "Relu": 1, "Neg": 1}
    assert summary.subgraphs == 2
    assert summary.functions == ("local::Scale",)
    assert summary.dynamic_dimensions == ("N",)
    assert [str(port) for port in summary.inputs] == ["x: float[N, 4]", "cond: bool[]", "w: float[1] (has a default)"]
    assert summary.producer == "maker 3"
    assert json.loads(json.dumps(summary.to_json()))["opsets"] == {"": 17, "local": 1}


def test_summary_of_an_example_model():
    summary = summarize(load(examples.path("digits-cnn")))
    assert summary.size.operators["qonnx.custom_op.general::Quant"] == 14
    assert summary.size.operators["Conv"] == 5
