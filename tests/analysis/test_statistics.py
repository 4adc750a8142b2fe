from __future__ import annotations

import random

import onnx_ir as ir

from onnx_passes.analysis.statistics import statistics_of

HEADER = '<ir_version: 10, opset_import: ["": 18]> '
RESIDUAL = (
    HEADER
    + """g (float[4] x, float[4] unused) => (float[4] y) <float w = {1.0}> {
    [start] a = Mul(x, w)
    [left] b = Relu(a)
    [further] c = Neg(b)
    [right] d = Abs(a)
    [join] y = Add(c, d)
}"""
)


def test_residual_block():
    found = statistics_of(ir.from_onnx_text(RESIDUAL))
    assert (found.nodes, found.edges, found.depth, found.width) == (5, 6, 4, 2)
    assert (found.forks, found.joins, found.widest_fork, found.parts) == (1, 1, 2, 1)
    assert found.unused_inputs == ("unused",)
    assert found.longest_path == ("Mul 'start'", "Relu 'left'", "Neg 'further'", "Add 'join'")


def test_the_order_of_nodes_does_not_matter():
    model = ir.from_onnx_text(RESIDUAL)
    nodes = list(model.graph)
    model.graph.remove(nodes)
    random.Random(3).shuffle(nodes)
    model.graph.extend(nodes)
    assert statistics_of(model) == statistics_of(ir.from_onnx_text(RESIDUAL))


def test_constants_are_no_nodes():
    text = "g (float x) => (float y) { c = Constant <value_float = 1.0> ()  y = Add(x, c) }"
    found = statistics_of(ir.from_onnx_text(HEADER + text))
    assert (found.nodes, found.depth, found.edges, found.joins) == (1, 1, 1, 0)


def test_pieces_that_nothing_connects():
    text = "g (float x, float z) => (float y, float w) { y = Relu(x)  w = Relu(z) }"
    found = statistics_of(ir.from_onnx_text(HEADER + text))
    assert (found.parts, found.width, found.depth) == (2, 2, 1)


def test_what_a_body_takes_from_outside_is_read_by_its_node():
    text = """g (bool c, float x) => (float y) {
        a = Relu(x)
        y = If (c) <then_branch = t () => (float p) { p = Neg(a) }, else_branch = e () => (float q) { q = Identity(a) }>
    }"""
    found = statistics_of(ir.from_onnx_text(HEADER + text))
    assert (found.nodes, found.depth, found.unread_nodes) == (2, 2, 0)


def test_dead_nodes_are_found():
    found = statistics_of(ir.from_onnx_text(HEADER + "g (float x) => (float y) { z = Neg(x)  y = Relu(x) }"))
    assert found.unread_nodes == 1
    assert found.forks == 1


def test_an_empty_graph():
    found = statistics_of(ir.from_onnx_text(HEADER + "g (float x) => (float x) { }"))
    assert (found.nodes, found.depth, found.width, found.longest_path, found.unused_inputs) == (0, 0, 0, (), ())
