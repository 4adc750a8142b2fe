from __future__ import annotations

import time
from collections.abc import Callable

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.equality import structurally_equal
from onnx_passes.graph.isomorphism import isomorphic
from tests.helpers.mutations import mutate
from tests.helpers.random_models import random_model, shuffle_names_and_order

SEEDS = st.integers(0, 2**32 - 1)


def model(body: str, *, inputs: str = "float[4] x", outputs: str = "float[4] y") -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {body}')


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.booleans())
def test_a_shuffled_model_is_wired_the_same(seed: int, dead: bool):
    original = random_model(seed, dead=dead)
    shuffled = shuffle_names_and_order(original, seed, topological=False)
    assert isomorphic(original, shuffled, ignore=["interface"])


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_is_as_strict_as_structural_equality(seed: int):
    original = random_model(seed, dead=True)
    changed, mutation = mutate(original, seed)
    assert isomorphic(original, changed) == structurally_equal(original, changed), mutation


def test_interface_names_do_not_matter_if_ignored():
    one = model("{ a = Relu(x) y = Abs(a) }")
    other = model("{ b = Relu(p) q = Abs(b) }", inputs="float[4] p", outputs="float[4] q")
    assert isomorphic(one, other, ignore=["interface"])
    assert not isomorphic(one, other)
    double = model("{ b = Relu(p) q = Abs(b) }", inputs="double[4] p", outputs="float[4] q")
    assert not isomorphic(one, double, ignore=["interface"])


def test_order_of_inputs_and_outputs_matters():
    both = "float[4] a, float[4] b"
    assert not isomorphic(
        model("{ y = Sub(a, b) }", inputs=both), model("{ y = Sub(b, a) }", inputs=both), ignore=["interface"]
    )
    one = model("{ y = Relu(x) z = Abs(x) }", outputs="float[4] y, float[4] z")
    other = model("{ y = Abs(x) z = Relu(x) }", outputs="float[4] y, float[4] z")
    assert not isomorphic(one, other, ignore=["interface"])


RELAXED = {
    "elements": (
        model("<float[2] w = {1, 2}> { y = Add(x, w) }"), model("<float[2] w = {3, 4}> { y = Add(x, w) }"),
        "constants", True,
    ),
    "shape of a constant": (
        model("<float[2] w = {1, 2}> { y = Add(x, w) }"), model("<float[1] w = {3}> { y = Add(x, w) }"),
        "constants", False,
    ),
    "type of a constant": (
        model("<int32[1] w = {1}> { y = Add(x, w) }"), model("<int64[1] w = {1}> { y = Add(x, w) }"),
        "constants", False,
    ),
    "sharing of constants": (
        model("<float w = {1}> { a = Add(x, w) y = Add(a, w) }"),
        model("<float w = {1}, float v = {1}> { a = Add(x, w) y = Add(a, v) }"),
        "constants", False,
    ),
    "tensor of a Constant": (
        model("{ w = Constant<value = float {1}>() y = Add(x, w) }"),
        model("{ w = Constant<value = float {2}>() y = Add(x, w) }"),
        "constants", True,
    ),
    "number of a Constant": (
        model("{ w = Constant<value_float = 1.0>() y = Add(x, w) }"),
        model("{ w = Constant<value_float = 2.0>() y = Add(x, w) }"),
        "constants", True,
    ),
    "length of a Constant": (
        model("{ w = Constant<value_ints = [1, 2]>() y = Add(x, w) }"),
        model("{ w = Constant<value_ints = [1]>() y = Add(x, w) }"),
        "constants", False,
    ),
    "attribute": (
        model("{ y = Softmax<axis = 0>(x) }"), model("{ y = Softmax<axis = 1>(x) }"), "attributes", True,
    ),
    "absent attribute": (model("{ y = Softmax<axis = 0>(x) }"), model("{ y = Softmax(x) }"), "attributes", True),
    "a Constant has no attributes but a value": (
        model("{ w = Constant<value_float = 1.0>() y = Add(x, w) }"),
        model("{ w = Constant<value_float = 2.0>() y = Add(x, w) }"),
        "attributes", False,
    ),
    "operator": (model("{ y = Relu(x) }"), model("{ y = Abs(x) }"), "attributes", False),
    "graphs are not mere attributes": (
        model("{ y = If (c) <then_branch = t () => (u) { u = Relu(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
        model("{ y = If (c) <then_branch = t () => (u) { u = Neg(x) }, else_branch = e () => (v) { v = Abs(x) }> }",
              inputs="float[4] x, bool c"),
        "attributes", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RELAXED)
def test_ignores_what_it_is_told_to(what: str):
    one, other, ignore, expected = RELAXED[what]
    assert not isomorphic(one, other)
    assert isomorphic(one, other, ignore=[ignore]) is expected
    assert isomorphic(other, one, ignore=[ignore]) is expected
    assert isomorphic(one, one, ignore=[ignore])


def test_refuses_to_ignore_what_it_does_not_know():
    same = model("{ y = Relu(x) }")
    with pytest.raises(UsageError, match="did you mean 'constants'"):
        isomorphic(same, same, ignore=["constant"])  # pyright: ignore[reportArgumentType]


def test_dead_nodes_count_within_their_subgraphs():
    body = """{ y = Relu(x) d = If (c) <then_branch = t () => (u) { p = Abs(x) u = Neg(p) o = Exp(p) },
    else_branch = e () => (v) <float w = {2}> { v = Mul(x, w) }> }"""
    one, other = (model(body, inputs="float[4] x, bool c") for _ in range(2))
    assert isomorphic(one, other)
    branch = other.graph[1].attributes["then_branch"].as_graph()
    branch[2].replace_input_with(0, branch[1].outputs[0])
    assert not isomorphic(one, other)


Wire = Callable[[ir.Value], list[ir.Node]]


def build(wire: Wire, *, with_output: bool = False) -> ir.Model:
    x = ir.val("x", ir.DataType.FLOAT, [1])
    nodes = wire(x)
    outputs = [nodes[-1].outputs[0]] if with_output else []
    return ir.Model(ir.Graph([x], outputs, nodes=nodes, opset_imports={"": 18}, name="g"), ir_version=10)


def branches(count: int, *, join: bool) -> Wire:
    def wire(x: ir.Value) -> list[ir.Node]:
        relus = [ir.Node("", "Relu", [x]) for _ in range(count)]
        ends = [ir.Node("", "Abs", relu.outputs) for relu in relus]
        sums = [ir.Node("", "Sum", [end.outputs[0] for end in ends])] if join else []
        return [*relus, *ends, *sums]

    return wire


def star(count: int) -> Wire:
    def wire(x: ir.Value) -> list[ir.Node]:
        centre = ir.Node("", "Relu", [x])
        return [centre, *(ir.Node("", "Abs", centre.outputs) for _ in range(count))]

    return wire


def rings(*sizes: int) -> Wire:
    def wire(x: ir.Value) -> list[ir.Node]:
        nodes: list[ir.Node] = []
        for size in sizes:
            relus = [ir.Node("", "Relu", [x]) for _ in range(size)]
            nodes += relus
            for index, relu in enumerate(relus):
                nodes.append(ir.Node("", "Add", [relu.outputs[0], relus[(index + 1) % size].outputs[0]]))
        return nodes

    return wire


@pytest.mark.parametrize(
    ("wire", "with_output"),
    [(branches(1000, join=True), True), (branches(1000, join=False), False), (star(1000), False), (rings(300), False)],
    ids=["joined branches", "dead branches", "dead star", "dead ring"],
)
def test_symmetric_graphs_take_linear_time(wire: Wire, with_output: bool):
    one, other = build(wire, with_output=with_output), build(wire, with_output=with_output)
    start = time.process_time()
    assert isomorphic(one, other)
    assert time.process_time() - start < 5
