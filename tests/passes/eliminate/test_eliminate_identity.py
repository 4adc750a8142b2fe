from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.eliminate.element_laws import EliminateIdentity
from tests.passes.eliminate.tools import body, refusals, rewritten
from tests.passes.tools import apply, assert_equal_results, check, model_of, run, value


def test_removes_identity_between_nodes():
    model = rewritten(EliminateIdentity(), "g (float[2] x) => (float[2] y) {a = Neg (x) b = Identity (a) y = Abs (b)}")
    assert body(model) == "a = Neg(x); y = Abs(a)"


def test_output_keeps_its_name_and_what_is_said_of_it():
    model = model_of("g (float[N] x) => (float[N] y) {a = Neg (x) y = Identity (a)}")
    model.graph.outputs[0].doc_string = "the result"
    assert apply(EliminateIdentity(), model)
    assert body(model) == "y = Neg(x)"
    assert model.graph.outputs[0].doc_string == "the result"
    assert model.graph.outputs[0].shape is not None


def test_keeps_identity_from_input_to_output():
    assert refusals(EliminateIdentity(), "g (float[2] x) => (float[2] y) {y = Identity (x)}")


def test_keeps_one_identity_of_a_chain_from_input_to_output():
    model = rewritten(EliminateIdentity(), "g (float[2] x) => (float[2] y) {a = Identity (x) y = Identity (a)}")
    assert body(model) == "y = Identity(x)"


def test_keeps_identity_for_a_second_output():
    model = rewritten(
        EliminateIdentity(),
        "g (float[2] x) => (float[2] y, float[2] z) {y = Neg (x) a = Identity (y) z = Identity (a)}",
    )
    assert body(model) == "y = Neg(x); z = Identity(y)"


def test_keeps_identity_of_an_initializer_that_is_an_output():
    assert refusals(EliminateIdentity(), "g () => (float[1] y) <float[1] w = {2.0}> {y = Identity (w)}")


def test_keeps_branch_outputs_that_pass_outer_values_on():
    text = """
    g (bool c, float[2] x) => (float[2] y) {
        n = Neg (x)
        y = If (c) <
            then_branch = t () => (float[2] a) {i = Identity (n) j = Identity (i) a = Identity (j)},
            else_branch = e () => (float[2] b) {k = Identity (x) b = Abs (k)}
        >
    }"""
    model = rewritten(EliminateIdentity(), text, feeds={"c": np.array(True), "x": np.array([1, -0.0], np.float32)})
    names = {graph.name: [node.op_type for node in graph] for graph in model.graphs()}
    assert names["t"] == ["Identity"]
    assert names["e"] == ["Abs"]


def test_value_captured_by_a_branch_is_replaced_there():
    text = """
    g (bool c, float[2] x) => (float[2] y) {
        n = Neg (x)
        m = Identity (n)
        y = If (c) <then_branch = t () => (float[2] a) {a = Abs (m)}, else_branch = e () => (float[2] b) {b = Neg (m)}>
    }"""
    model = rewritten(EliminateIdentity(), text, feeds={"c": np.array(False), "x": np.array([1, -0.0], np.float32)})
    assert [node.op_type for node in model.graph] == ["Neg", "If"]


def test_loop_state_keeps_its_interface():
    text = """
    g (float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}> {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) {
            d = Identity (c)
            t = Identity (s)
        }>
    }"""
    assert refusals(EliminateIdentity(), text)


def test_annotations_of_the_output_survive():
    model = model_of("g (float[2] x) => (float[2] y) {a = Neg (x) b = Identity (a) y = Abs (b)}")
    value(model, "b").meta["quant_parameter_tensor_names"] = {"finn_datatype": "INT4"}
    apply(EliminateIdentity(), model)
    assert value(model, "a").meta["quant_parameter_tensor_names"] == {"finn_datatype": "INT4"}


def test_overridable_default_stays_overridable():
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1] x, float[1] w = {2.0}) => (float[1] y)'
        "{v = Identity (w) y = Mul (x, v)}"
    )
    feeds = {"x": np.array([3], np.float32), "w": np.array([4], np.float32)}
    expected = run(model, feeds)
    apply(EliminateIdentity(), model)
    check(model)
    assert_equal_results(model, expected, feeds)
    assert [v.name for v in model.graph.inputs] == ["x", "w"]
