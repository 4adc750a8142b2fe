from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph import annotations
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from tests.helpers.random_models import random_inputs, random_model
from tests.passes.tools import apply, assert_equal_results, check, model_of, operators, run, value


def test_removes_what_no_output_depends_on():
    model = model_of("""g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {1, 2}> {
      a = Add (x, w)
      b = Mul (a, v)
      c = Sub (b, b)
      y = Relu (a)
    }""")
    assert apply(RemoveUnusedNodes(), model)
    assert operators(model.graph) == ["Add", "Relu"]
    assert list(model.graph.initializers) == ["w"]
    check(model)


def test_nothing_unused_is_nothing_changed():
    model = model_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add (x, w) }")
    assert not apply(RemoveUnusedNodes(), model)


def test_needs_no_order():
    model = model_of("g (float[2] x) => (float[2] y) { a = Abs (x) b = Neg (a) c = Exp (b) y = Relu (x) }")
    model.graph.extend(list(reversed(model.graph)))
    assert apply(RemoveUnusedNodes(), model)
    assert operators(model.graph) == ["Relu"]


def test_random_nodes_are_removed_like_others():
    model = model_of("g (float[2] x) => (float[2] y) { r = RandomNormal <shape = [2]> () y = Relu (x) }")
    assert apply(RemoveUnusedNodes(), model)
    assert operators(model.graph) == ["Relu"]


def test_inputs_outputs_and_their_initializers_stay():
    model = model_of("""g (float[2] x, float[2] w, float[2] u) => (float[2] y, float[2] c)
      <float[2] w = {1, 2}, float[2] c = {3, 4}> { y = Relu (x) }""")
    assert not apply(RemoveUnusedNodes(), model)
    assert list(model.graph.initializers) == ["w", "c"]


def test_outputs_that_nobody_reads_stay_with_their_node():
    model = model_of("g (float[2, 4] x) => (float[2, 2] y) <int64[1] k = {2}> { y, i = TopK (x, k) }")
    assert not apply(RemoveUnusedNodes(), model)
    assert len(model.graph[0].outputs) == 2


BRANCHES = """g (bool k, float[2] x) => (float[2] y) <float[2] outer = {5, 6}, float[2] only_dead = {7, 8}> {
  a = Abs (x)
  b = Neg (x)
  y = If (k) <
    then_branch = t () => (float[2] r) <float[2] w = {1, 2}, float[2] gone = {3, 4}> {
      dead = Mul (b, gone) worse = Add (dead, only_dead) r = Mul (x, w) },
    else_branch = e () => (float[2] s) { s = Add (a, outer) }>
}"""


def test_subgraphs_are_cleaned_and_keep_alive_what_they_read():
    model = model_of(BRANCHES)
    feeds = {"k": np.array(True), "x": np.array([1, -2], np.float32)}
    expected = run(model, feeds)
    assert apply(RemoveUnusedNodes(), model)
    branch = model.graph[-1].attributes["then_branch"].as_graph()
    assert operators(model.graph) == ["Abs", "If"]
    assert operators(branch) == ["Mul"]
    assert list(branch.initializers) == ["w"]
    assert list(model.graph.initializers) == ["outer"]
    check(model)
    assert_equal_results(model, expected, feeds)


def test_a_dead_node_with_subgraphs_lets_go_of_what_they_read():
    model = model_of(BRANCHES)
    y = model.graph.outputs[0]
    model.graph.outputs[0] = model.graph[0].outputs[0]
    y.name = "unread"
    assert apply(RemoveUnusedNodes(), model)
    assert operators(model.graph) == ["Abs"]
    assert not model.graph.initializers
    assert len(model.graph.inputs[1].uses()) == 1


def test_functions_are_cleaned():
    model = model_of(
        'g (float[2] x) => (float[2] y) { y = local.f (x) }\n<domain: "local", opset_import: ["" : 18]>\n'
        "f (a) => (c) { b = Relu (a) d = Neg (b) c = Abs (a) }",
        domains='"local" : 1',
    )
    assert apply(RemoveUnusedNodes(), model)
    assert operators(next(iter(model.functions.values()))) == ["Abs"]


def test_keeps_what_annotations_of_living_values_refer_to():
    model = model_of("""g (float[2] x) => (float[2] y) <float s = {2}, float z = {0}, float t = {3}> {
      c = Constant <value_float = 1.0> ()
      dead = Neg (x)
      a = Abs (x)
      y = Relu (a)
    }""")
    annotations.set(value(model, "a"), {"SCALE_TENSOR": "s", "ZERO_POINT_TENSOR": "c", "finn_datatype": "z"})
    annotations.set(value(model, "dead"), {"SCALE_TENSOR": "t"})
    assert apply(RemoveUnusedNodes(), model)
    assert list(model.graph.initializers) == ["s"]
    assert operators(model.graph) == ["Constant", "Abs", "Relu"]


@pytest.mark.parametrize("seed", range(20))
def test_random_models_compute_the_same(seed: int):
    model = random_model(seed, nodes=30, dead=True)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    apply(RemoveUnusedNodes(), model)
    check(model)
    assert_equal_results(model, expected, feeds)
    assert all(any(o.uses() or o.is_graph_output() for o in node.outputs) for node in model.graph.all_nodes())
