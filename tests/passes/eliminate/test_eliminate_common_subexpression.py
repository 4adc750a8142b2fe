from __future__ import annotations

import time

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.core.base import Context
from onnx_passes.passes.eliminate.eliminate_common_subexpression import EliminateCommonSubexpression
from tests.passes.eliminate.tools import body, refusals, rewritten
from tests.passes.tools import apply, assert_equal_results, check, model_of, run, value


def test_computes_once_what_is_computed_twice():
    text = """g (float[12] x) => (float[12] y) {
        a = Neg (x) b = Neg (x) c = Abs (a) d = Abs (b) y = Add (c, d)
    }"""
    assert body(rewritten(EliminateCommonSubexpression(), text)) == "a = Neg(x); c = Abs(a); y = Add(c, c)"


def test_outputs_keep_their_names():
    text = "g (float[12] x) => (float[12] y, float[12] z) {a = Neg (x) y = Neg (x) b = Abs (a) z = Abs (y)}"
    assert body(rewritten(EliminateCommonSubexpression(), text)) == "y = Neg(x); z = Abs(y)"


def test_two_outputs_share_by_a_copy():
    text = "g (float[12] x) => (float[12] y, float[12] z) {y = Neg (x) z = Neg (x)}"
    assert body(rewritten(EliminateCommonSubexpression(), text)) == "y = Neg(x); z = Identity(y)"


def test_copies_for_outputs_stay():
    text = "g (float[2] x) => (float[2] y, float[2] z) {y = Identity (x) z = Identity (x)}"
    refusals(EliminateCommonSubexpression(), text)


def test_initializers_of_the_same_bits_are_the_same():
    text = """g (float[12] x) => (float[12] y) <float c = {2.0}, float d = {2.0}> {
        a = Mul (x, c) b = Mul (d, x) y = Add (a, b)
    }"""
    assert body(rewritten(EliminateCommonSubexpression(), text)) == "a = Mul(x, c); y = Add(a, a)"


@pytest.mark.parametrize(("c", "d"), [("0.0", "-0.0"), ("1.0", "2.0")])
def test_keeps_constants_of_other_bits(c: str, d: str):
    text = f"""g (float[2] x) => (float[2] y) <float c = {{{c}}}, float d = {{{d}}}> {{
        a = Mul (x, c) b = Mul (x, d) y = Add (a, b)
    }}"""
    refusals(EliminateCommonSubexpression(), text)


def test_constants_that_are_nan_are_the_same_by_their_bits():
    text = """g (float[2] x) => (float[2] y) {
        c = Constant <value = float {nan}> () d = Constant <value = float {nan}> ()
        a = Mul (x, c) b = Mul (x, d) y = Add (a, b)
    }"""
    assert len(rewritten(EliminateCommonSubexpression(), text).graph) == 3


def test_large_initializers_are_compared_only_by_themselves():
    text = """g (float[2] x) => (float[2] y) <float[2] c = {1.0, 2.0}, float[2] d = {1.0, 2.0}> {
        a = Mul (x, c) b = Mul (x, d) y = Add (a, b)
    }"""
    model = model_of(text)
    assert not apply(EliminateCommonSubexpression(max_size=4), model)
    assert apply(EliminateCommonSubexpression(max_size=8), model)


def test_keeps_default_that_may_be_overridden_apart_from_a_constant():
    text = """g (float[2] x, float c = {2.0}) => (float[2] y) <float d = {2.0}> {
        a = Mul (x, c) b = Mul (x, d) y = Add (a, b)
    }"""
    refusals(EliminateCommonSubexpression(), text)


def test_keeps_attributes_of_another_type():
    model = model_of('g (float[2] x) => (float[2] y) {a = my.F <k = 1> (x) b = my.F <k = 1.0> (x) y = Add (a, b)} <domain: "my", opset_import: ["" : 18]> F <k> (x) => (y) {y = Neg (x)}', domains='"my" : 1')  # fmt: skip  # noqa: E501
    assert not EliminateCommonSubexpression().run(model, Context()).modified


def test_keeps_other_attributes_and_missing_inputs():
    text = """g (float[2] x, float m) => (float[2] y) {
        a = Clip (x, m) b = Clip (x, , m) c = LeakyRelu <alpha = 0.1> (a) d = LeakyRelu <alpha = 0.2> (a)
        e = Add (c, d) y = Add (e, b)
    }"""
    refusals(EliminateCommonSubexpression(), text)


@pytest.mark.parametrize(
    "node", ["RandomNormalLike (x)", "RandomUniformLike <seed = 1.0> (x)", "Bernoulli (x)", "Dropout (x, r, on)"]
)
def test_keeps_random_operators(node: str):
    text = f"""g (float[2] x) => (float[2] y) <float r = {{0.5}}, bool on = {{1}}> {{
        a = {node} b = {node} y = Sub (a, b)
    }}"""
    refusals(EliminateCommonSubexpression(), text)


def test_keeps_functions_that_are_random_inside():
    functions = """
    <domain: "my", opset_import: ["" : 18, "my" : 1]> F (x) => (y) {y = my.G (x)}
    <domain: "my", opset_import: ["" : 18]> G (x) => (y) {y = RandomNormalLike (x)}
    <domain: "my", opset_import: ["" : 18]> H (x) => (y) {y = Neg (x)}"""
    graph = """g (float[2] x) => (float[2] y) {
        a = my.F (x) b = my.F (x) c = my.H (x) d = my.H (x) e = Sub (a, b) f = Sub (c, d) y = Add (e, f)
    }"""
    model = model_of(graph + functions, domains='"my" : 1')
    EliminateCommonSubexpression().run(model, Context())
    assert [node.op_type for node in model.graph] == ["F", "F", "H", "Sub", "Sub", "Add"]


def test_keeps_operators_of_unknown_domains():
    model = model_of("g (float[2] x) => (float[2] y) {a = my.F (x) b = my.F (x) y = Add (a, b)}", domains='"my" : 1')
    assert not EliminateCommonSubexpression().run(model, Context()).modified


def test_commutes_only_what_is_exact():
    text = """g (float[12] x, float[12] y) => (float[12] z) {
        a = Add (x, y) b = Add (y, x) c = Max (x, y) d = Max (y, x) e = Sub (x, y) f = Sub (y, x)
        z = Sum (a, b, c, d, e, f)
    }"""
    model = rewritten(EliminateCommonSubexpression(), text)
    assert [node.op_type for node in model.graph] == ["Add", "Max", "Max", "Sub", "Sub", "Sum"]


def test_sums_of_three_are_not_reordered():
    text = """g (float[2] x, float[2] y, float[2] z) => (float[2] u) {
        a = Sum (x, y, z) b = Sum (z, y, x) u = Sub (a, b)
    }"""
    refusals(EliminateCommonSubexpression(), text)


def test_branches_share_what_is_computed_before_them():
    text = """g (bool c, float[2] x) => (float[2] y) {
        n = Neg (x)
        y = If (c) <
            then_branch = t () => (float[2] a) {m = Neg (x) k = Neg (x) s = Mul (m, k) a = Abs (s)},
            else_branch = e () => (float[2] b) {b = Neg (x)}
        >
    }"""
    model = rewritten(EliminateCommonSubexpression(), text, feeds={"c": np.array(True), "x": np.ones(2, np.float32)})
    graphs = {graph.name: [node.op_type for node in graph] for graph in model.graphs()}
    assert graphs == {"g": ["Neg", "If"], "t": ["Mul", "Abs"], "e": ["Identity"]}


def test_graphs_do_not_share_what_a_branch_computes():
    text = """g (bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If (c) <then_branch = t () => (float[2] a) {a = Neg (x)}, else_branch = e () => (float[2] b) {b = Neg (x)}>
        z = Neg (x)
    }"""
    refusals(EliminateCommonSubexpression(), text)


def test_keeps_different_annotations_apart():
    model = model_of("g (float[2] x) => (float[2] y) {a = Neg (x) b = Neg (x) y = Add (a, b)}")
    value(model, "a").meta["quant_parameter_tensor_names"] = {"finn_datatype": "INT4"}
    value(model, "b").meta["quant_parameter_tensor_names"] = {"finn_datatype": "INT8"}
    assert not apply(EliminateCommonSubexpression(), model)
    value(model, "a").meta.clear()
    assert apply(EliminateCommonSubexpression(), model)
    assert value(model, "a").meta["quant_parameter_tensor_names"] == {"finn_datatype": "INT8"}


def test_several_outputs_are_shared_together():
    text = """g (float[6] x) => (float[2] y) <int64 k = {2}, int64[1] k1 = {2}> {
        a, i = TopK (x, k1) b, j = TopK (x, k1) c = Cast <to = 1> (i) d = Cast <to = 1> (j) y = Sum (a, b, c, d)
    }"""
    model = rewritten(EliminateCommonSubexpression(), text)
    assert [node.op_type for node in model.graph] == ["TopK", "Cast", "Sum"]


UNARY = ("Neg", "Abs", "Relu", "Identity", "Floor")
BINARY = ("Add", "Mul", "Sub", "Max", "Min")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=16), st.data())
def test_random_graphs_compute_the_same(steps: list[tuple[int, int, int]], data: st.DataObject):
    values, lines = ["x", "y"], []
    for number, (op, i, j) in enumerate(steps):
        inputs = [values[-1 - i % len(values)], values[-1 - j % len(values)]]
        name = [*UNARY, *BINARY][op]
        lines.append(f"v{number} = {name} ({', '.join(inputs if name in BINARY else inputs[:1])})")
        values.append(f"v{number}")
    outputs = data.draw(st.lists(st.sampled_from(values[2:]), min_size=1, max_size=4, unique=True))
    declared = ", ".join(f"float[12] {name}" for name in outputs)
    model = model_of(f"g (float[12] x, float[12] y) => ({declared}) {{{' '.join(lines)}}}")
    x = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1, -1, 2.5, 3, -7, 1e-40, 1e38], np.float32)
    feeds = {"x": x, "y": np.roll(x, 5)}
    expected = run(model, feeds)
    EliminateCommonSubexpression().run(model, Context())
    check(model)
    assert_equal_results(model, expected, feeds)
    assert [value.name for value in model.graph.outputs] == outputs


def test_cost_grows_with_the_number_of_nodes():
    def seconds(count: int) -> float:
        x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
        nodes: list[ir.Node] = []
        last = x
        for number in range(count):
            nodes.append(ir.Node("", "Neg" if number % 3 else "Abs", [last if number % 2 else x], name=f"n{number}"))
            last = nodes[-1].outputs[0]
            last.name = f"v{number}"
        graph = ir.Graph([x], [last], nodes=nodes, name="g", opset_imports={"": 18})
        model = ir.Model(graph, ir_version=9)
        started = time.process_time()
        assert EliminateCommonSubexpression().run(model, Context()).modified
        return time.process_time() - started

    assert min(seconds(8000) for _ in range(2)) < 20 * min(seconds(1000) for _ in range(2))
