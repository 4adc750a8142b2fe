from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph import annotations
from onnx_passes.passes.cleanup.unique_names import UniqueNames
from tests.helpers.random_models import random_inputs, random_model
from tests.passes.tools import apply, assert_equal_results, check, model_of, run, values

BRANCHES = """g (bool k, float[2] x) => (float[2] y) {
  [n] t = Relu (x)
  [n] y = If (k) <
    then_branch = a () => (float[2] r) <float[2] w = {1, 2}> { [n] s = Mul (t, w) r = Neg (s) },
    else_branch = b () => (float[2] r) <float[2] w = {3, 4}> { [m] s = Mul (t, w) r = Abs (s) }>
}"""


def test_names_are_unique_over_the_graph_and_its_subgraphs():
    model = model_of(BRANCHES)
    assert apply(UniqueNames(), model)
    of_values = [v.name for v in values(model)]
    of_nodes = [node.name for node in model.graph.all_nodes()]
    assert len(of_values) == len(set(of_values))
    assert len(of_nodes) == len(set(of_nodes))
    assert of_nodes == ["n", "n_1", "n_2", "Neg", "m", "Abs"]
    assert of_values == ["k", "x", "t", "y", "w", "s", "r", "w_1", "s_1", "r_1"]
    check(model)
    x = np.array([-1.0, 2.0], np.float32)
    assert_equal_results(model, [np.array([-0.0, -4.0], np.float32)], {"k": np.array(True), "x": x})
    assert_equal_results(model, [np.array([0.0, 8.0], np.float32)], {"k": np.array(False), "x": x})


def test_unique_names_stay():
    model = model_of("g (float[2] x) => (float[2] y) { [a] t = Relu (x) [b] y = Neg (t) }")
    assert not apply(UniqueNames(), model)


def test_a_new_name_avoids_those_that_come_later():
    model = model_of("g (float[2] x) => (float[2] y) { [n] t = Relu (x) [n] u = Abs (t) [n_1] y = Neg (u) }")
    assert apply(UniqueNames(), model)
    assert [node.name for node in model.graph] == ["n", "n_2", "n_1"]


def test_inputs_and_outputs_of_the_model_keep_their_names():
    model = model_of("g (float[2] x) => (float[2] y) { [a] t = Relu (x) [b] y = Neg (t) }")
    model.graph[0].outputs[0].name = "y"
    assert apply(UniqueNames(), model)
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == ["x", "y"]
    assert model.graph[0].outputs[0].name == "y_1"
    check(model)


def test_unnamed_values_that_are_used_get_a_name():
    model = model_of("g (float[2] x) => (float[2] y) { [a] t = Relu (x) [b] y = Neg (t) }")
    model.graph[0].outputs[0].name = None
    assert apply(UniqueNames(), model)
    assert model.graph[0].outputs[0].name == "Relu_output"


def test_absent_optional_outputs_stay_absent():
    model = model_of("g (float[2, 4] x) => (int64[2, 2] i) <int64[1] k = {2}> { [a] , i = TopK (x, k) }")
    assert not apply(UniqueNames(), model)
    assert model.graph[0].outputs[0].name == ""


def test_annotations_follow_the_tensor_of_their_scope():
    model = model_of(BRANCHES)
    graphs = {graph.name: graph for graph in model.graphs()}
    for name in ("a", "b"):
        annotations.set(graphs[name][0].outputs[0], {"SCALE_TENSOR": "w", "finn_datatype": "w"})
    assert apply(UniqueNames(), model)
    found = [annotations.get(graphs[name][0].outputs[0]) for name in ("a", "b")]
    assert found == [
        {"SCALE_TENSOR": "w", "finn_datatype": "w"},
        {"SCALE_TENSOR": "w_1", "finn_datatype": "w"},
    ]


def test_functions_have_names_of_their_own():
    model = model_of(
        "g (float[2] x) => (float[2] y) { [n] t = Relu (x) [m] y = local.f (t) }\n"
        '<domain: "local", opset_import: ["" : 18]>\nf (x) => (y) { [n] t = Relu (x) [n] y = Neg (t) }',
        domains='"local" : 1',
    )
    assert apply(UniqueNames(), model)
    function = next(iter(model.functions.values()))
    assert [node.name for node in function] == ["n", "n_1"]
    assert [v.name for v in (*function.inputs, *function.outputs)] == ["x", "y"]
    assert function[0].outputs[0].name == "t"
    assert [node.name for node in model.graph] == ["n", "m"]


@pytest.mark.parametrize("seed", range(10))
def test_a_random_model_with_few_names_still_computes_the_same(seed: int):
    model = random_model(seed, nodes=20)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    interface = {*model.graph.inputs, *model.graph.outputs}
    for number, node in enumerate(model.graph.all_nodes()):
        node.name = f"n{number % 3}"
        for output in node.outputs:
            output.name = output.name if output in interface or not output.name else f"v{number % 3}"
    apply(UniqueNames(), model)
    check(model)
    assert_equal_results(model, expected, feeds)


def test_is_deterministic():
    def names() -> list[str | None]:
        model: ir.Model = model_of(BRANCHES)
        UniqueNames()(model)
        return [v.name for v in values(model)]

    assert names() == names()
