from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.passes.cleanup.topological_sort import TopologicalSort
from tests.helpers.random_models import random_inputs, random_model, shuffle_names_and_order
from tests.passes.tools import apply, assert_equal_results, check, model_of, run


def names(graph: ir.Graph | ir.Function) -> list[str | None]:
    return [node.outputs[0].name for node in graph]


def test_puts_producers_first():
    model = model_of("g (float[2] x) => (float[2] c) { a = Relu (x) b = Abs (a) c = Neg (b) }")
    a, b, c = model.graph
    model.graph.extend([c, a, b])
    assert names(model.graph) == ["c", "a", "b"]
    assert apply(TopologicalSort(), model)
    assert names(model.graph) == ["a", "b", "c"]
    check(model)


def test_keeps_an_order_that_runs():
    model = model_of("g (float[2] x) => (float[2] d) { b = Abs (x) a = Relu (x) c = Add (b, x) d = Add (a, c) }")
    assert not apply(TopologicalSort(), model)
    assert names(model.graph) == ["b", "a", "c", "d"]


def test_moves_only_what_is_out_of_place():
    model = model_of("g (float[2] x) => (float[2] d) { b = Abs (x) a = Relu (x) c = Add (b, x) d = Add (a, c) }")
    b, a, c, d = model.graph
    model.graph.extend([c, b, a, d])
    assert apply(TopologicalSort(), model)
    assert names(model.graph) == ["b", "c", "a", "d"]


CAPTURE = """g (bool k, float[2] x) => (float[2] y) {
  a = Relu (x)
  y = If (k) <
    then_branch = t () => (float[2] u) { i = Abs (a) u = Neg (i) },
    else_branch = e () => (float[2] v) { v = If (k) <
      then_branch = tt () => (float[2] w) { w = Exp (a) },
      else_branch = ee () => (float[2] z) { z = Identity (x) }> }>
}"""


def test_sees_what_subgraphs_read():
    model = model_of(CAPTURE)
    feeds = {"k": np.array(True), "x": np.array([-1.0, 2.0], np.float32)}
    expected = run(model, feeds)
    relu, condition = model.graph
    inner = condition.attributes["then_branch"].as_graph()
    inner.extend(list(reversed(inner)))
    model.graph.extend([condition, relu])
    assert apply(TopologicalSort(), model)
    assert names(model.graph) == ["a", "y"]
    assert names(inner) == ["i", "u"]
    assert_equal_results(model, expected, feeds)


def test_sorts_functions():
    model = model_of(
        'g (float[2] x) => (float[2] y) { y = local.f (x) }\n<domain: "local", opset_import: ["" : 18]>\n'
        "f (a) => (c) { b = Relu (a) c = Neg (b) }",
        domains='"local" : 1',
    )
    function = next(iter(model.functions.values()))
    function.extend(list(reversed(function)))
    assert apply(TopologicalSort(), model)
    assert names(function) == ["b", "c"]


def test_names_the_nodes_of_a_cycle():
    model = model_of("g (float[2] x) => (float[2] c) { [first] a = Add (x, x) [second] b = Abs (a) c = Neg (b) }")
    first, second, _ = model.graph
    first.replace_input_with(1, second.outputs[0])
    with pytest.raises(ModelError, match="cycle: Abs 'second' → Add 'first' → Abs 'second'"):
        TopologicalSort()(model)


def test_a_long_chain_backwards_needs_no_recursion():
    x = ir.val("x", ir.DataType.FLOAT, [1])
    nodes = [ir.node("Relu", [x])]
    for _ in range(20_000):
        nodes.append(ir.Node("", "Relu", [nodes[-1].outputs[0]]))
    model = ir.Model(ir.Graph([x], nodes[-1].outputs, nodes=nodes[::-1], opset_imports={"": 18}), ir_version=9)
    assert TopologicalSort()(model).modified
    assert list(model.graph) == nodes


@pytest.mark.parametrize("seed", range(15))
def test_any_order_of_a_random_model_can_be_sorted(seed: int):
    model = random_model(seed, nodes=25)
    feeds = random_inputs(model)
    expected = run(model, feeds)
    shuffled = shuffle_names_and_order(model, seed, topological=False)
    apply(TopologicalSort(), shuffled)
    assert_equal_results(shuffled, expected, feeds)
