from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.run import pack
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.run.pack import apart_from_inputs

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
g (float[3] x, float[3] fed) => (float[3] y, float[3] c)
<float[3] w = {3, 1, 2}, float[3] fed = {1, 1, 1}, int64[1] k = {3}, bool yes = {1}>
{
    a = Neg(w)
    two = Constant<value_float = 2.0>()
    b = Mul(a, two)
    c = Add(b, two)
    up, indices = TopK(b, k)
    f = Neg(fed)
    noise = RandomNormal<shape = [3], seed = 1.0>()
    louder = Mul(noise, two)
    chosen = If(yes)
        <then_branch = t () => (float[3] s) { s = Neg(a) }, else_branch = e () => (float[3] z) { z = Neg(b) }>
    y = Sum(x, c, f, up, louder, chosen)
}
"""


def names(model: ir.Model, fed: set[str | None]) -> list[str | None]:
    return [node.outputs[0].name for node in apart_from_inputs(model.graph, fed)]


def test_few_nodes_stay_where_they_are():
    assert names(ir.from_onnx_text(MODEL), {"x", "fed"}) == []


def test_nodes_that_nothing_fed_reaches_are_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pack, "_MANY", 0)
    model = ir.from_onnx_text(MODEL)
    assert names(model, {"x", "fed"}) == ["a", "b", "c", "up"]
    assert names(model, {"x"}) == ["a", "b", "c", "up", "f"]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize("feeds", [{"x"}, {"x", "fed"}])
def test_results_are_the_same(monkeypatch: pytest.MonkeyPatch, size: int, feeds: set[str]):
    sample = {name: np.array([0.5, -1, 7], np.float32) for name in feeds}
    model = ir.from_onnx_text(MODEL)
    inner = [value for node in model.graph for value in node.outputs if value.name in {"b", "indices", "louder"}]
    plain = Executor().prepare(model, also=inner, engine="onnxruntime", feeds=feeds).run(sample)
    monkeypatch.setattr(pack, "_MANY", 0)
    monkeypatch.setattr(pack, "_IN_A_BRANCH", size)
    branched = Executor().prepare(model, also=inner, engine="onnxruntime", feeds=feeds).run(sample)
    assert list(branched) == list(plain)
    for name, array in plain.items():
        np.testing.assert_array_equal(branched[name], array)


def test_models_of_old_versions_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pack, "_MANY", 0)
    model = ir.from_onnx_text(
        '<ir_version: 3, opset_import: ["": 8]> g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}>'
        "{ n = Neg(w) y = Add(x, n) }"
    )
    sample = {"x": np.array([1, 2], np.float32)}
    result = Executor().prepare(model, engine="onnxruntime", feeds={"x"}).run(sample)
    assert not result["y"].any()


def test_weights_that_are_handed_over_reach_branches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pack, "_MANY", 0)
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> g (float[1000] x) => (float[1000] y) <float[1] w = {1}>'
        "{ n = Neg(w) y = Add(x, n) }"
    )
    weight = np.arange(1000, dtype=np.float32)
    value = model.graph.initializers["w"]
    value.const_value, value.shape = ir.Tensor(weight, name="w"), ir.Shape([1000])
    result = Executor().prepare(model, engine="onnxruntime").run({"x": weight})
    assert not result["y"].any()
