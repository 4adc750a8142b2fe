from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import onnx_passes
from tests.passes.fuse.tools import reasons
from tests.passes.tools import model_of, operators

NORM = "y = LayerNormalization (t, g)"
DEFINITION = """m = ReduceMean <axes = [-1]> (t) d = Sub (t, m) p = Pow (d, two) v = ReduceMean <axes = [-1]> (p)
    e = Add (v, eps) q = Sqrt (e) r = Div (d, q) k = Mul (r, g) y = Add (k, g)"""


def graph(body: str = f"t = Add (x, s) {NORM}", *, x: str = "float[N,3,4]", s: str = "", outputs: str = "") -> str:
    constants = "float[4] g = {1, 1, 1, 1}, float two = {2}, float eps = {0.00001}"
    return f"m ({x} x, {s or x} s) => ({x} y{outputs}) <{constants}> {{ {body} }}"


def executed(model: ir.Model, folder) -> list[str]:
    """List the operators that ONNX Runtime makes of a model by default."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node]


@pytest.mark.parametrize(("body", "opset"), [(f"t = Add (x, s) {NORM}", 17), (f"t = Add (x, s) {DEFINITION}", 13)])
def test_onnx_runtime_leaves_the_sum_of_a_simplified_model_alone(body: str, opset: int, tmp_path):
    model = model_of(graph(body), opset=opset)
    assert executed(model, tmp_path) == ["SkipLayerNormalization"]
    result = onnx_passes.apply(model, "simplify")
    assert executed(result.model, tmp_path) == ["Sum", "LayerNormalization"]
    assert result["convert-skip-to-sum"] is None
    again = onnx_passes.apply(result.model, "simplify")
    assert operators(again.model.graph) == operators(result.model.graph)


def test_results_are_bit_equal():
    model = model_of(graph(), opset=17)
    feeds = {name: np.random.default_rng(i).normal(size=(2, 3, 4)).astype(np.float32) for i, name in enumerate("xs")}
    result = onnx_passes.apply(model, "convert-skip-to-sum", inputs=[feeds])
    assert operators(result.model.graph) == ["Sum", "LayerNormalization"]
    assert result.record.level in ("bits:sampled", "bits:proved-here", "bits:proved")


@pytest.mark.parametrize(
    "text",
    [
        graph(f"t = Add (x, s) {NORM} z = Neg (t)", outputs=", float[N,3,4] z"),
        graph(outputs=", float[N,3,4] t"),
        graph("t = Add (x, s) y = Neg (t)"),
        graph("t = Add (x, s) m = ReduceMean <keepdims = 1> (x) y = Sub (t, m)"),
    ],
)
def test_other_sums_are_not_looked_at(text: str):
    result = onnx_passes.apply(model_of(text, opset=17), "convert-skip-to-sum")
    assert not result.record.applications


@pytest.mark.parametrize(
    "text",
    [graph(s="float[4]"), graph(x="float[N,4]"), graph(x="float16[N,3,4]").replace("float[4] g", "float16[4] g")],
)
def test_refuses(text: str):
    assert "same shape of three dimensions" in reasons("convert-skip-to-sum", text, opset=17)


def test_goes_into_skip_layernorm_where_that_is_wanted():
    result = onnx_passes.apply(model_of(graph(), opset=17), "simplify, fuse-skip-layernorm")
    assert operators(result.model.graph) == ["SkipLayerNormalization"]


def test_what_is_slower_on_a_cpu_is_no_member_of_the_group():
    result = onnx_passes.apply(model_of(graph(), opset=17), "simplify, fuse-onnxruntime")
    assert operators(result.model.graph) == ["Sum", "LayerNormalization"]
