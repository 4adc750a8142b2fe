from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.core.errors import UsageError
from onnx_passes.graph.equality import assert_structurally_equal, first_difference, structurally_equal
from onnx_passes.graph.hashing.fingerprint import structural_hash
from tests.helpers.mutations import mutate
from tests.helpers.random_models import random_model, shuffle_names_and_order

SEEDS = st.integers(0, 2**32 - 1)


def model(body: str, *, inputs: str = "float[4] x", outputs: str = "float[4] y", opset: int = 18) -> ir.Model:
    return ir.from_onnx_text(
        f'<ir_version: 10, opset_import: ["": {opset}, "c": 1]> g ({inputs}) => ({outputs}) {body}'
    )


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans())
def test_agrees_with_the_structural_digest(seed: int, dead: bool):
    original = random_model(seed, dead=dead)
    shuffled = shuffle_names_and_order(original, seed, topological=False)
    assert_structurally_equal(original, shuffled)
    changed, mutation = mutate(original, seed)
    changed = shuffle_names_and_order(changed, seed)
    for one, other in ((original, changed), (changed, shuffled)):
        assert structurally_equal(one, other) == (structural_hash(one) == structural_hash(other)), mutation
    assert not structurally_equal(original, changed), mutation


@settings(max_examples=15, deadline=None)
@given(SEEDS, SEEDS)
def test_agrees_with_the_structural_digest_after_several_mutations(seed: int, other_seed: int):
    one = two = random_model(seed, nodes=8, dead=True)
    for step in range(3):
        one, _ = mutate(one, seed + step)
        two, _ = mutate(two, other_seed + step)
    assert structurally_equal(one, two) == (structural_hash(one) == structural_hash(two))


IF = "{ y = If (c) <then_branch = t () => (u) { %s }, else_branch = e () => (v) { v = Abs(x) }> }"
CONDITION = "float[4] x, bool c"

MESSAGES = {
    "operator": (
        model("{ [first] a = Relu(x) [last] y = Abs(a) }"),
        model("{ [first] a = Neg(x) [last] y = Abs(a) }"),
        "output 0 'y' <- Abs 'last' input 0: Relu 'first' vs Neg 'first'",
    ),
    "unnamed nodes": (
        model("{ a = Relu(x) y = Abs(a) }"),
        model("{ a = c.Neg(x) y = Abs(a) }"),
        "output 0 'y' <- Abs -> 'y' input 0: Relu -> 'a' vs c::Neg -> 'a'",
    ),
    "attribute": (
        model("{ [c1] y = Conv<strides = [1, 1]>(x, x) }"),
        model("{ [c1] y = Conv<strides = [2, 2]>(x, x) }"),
        "output 0 'y' <- Conv 'c1' attribute 'strides': [1, 1] vs [2, 2]",
    ),
    "absent attribute": (
        model("{ [c1] y = Conv<strides = [1, 1]>(x, x) }"),
        model("{ [c1] y = Conv(x, x) }"),
        "output 0 'y' <- Conv 'c1' attribute 'strides': [1, 1] vs absent",
    ),
    "attribute type": (
        model("{ [f] y = c.F<k = 1>(x) }"),
        model("{ [f] y = c.F<k = 1.0>(x) }"),
        "output 0 'y' <- c::F 'f' attribute 'k': INT 1 vs FLOAT 1.0",
    ),
    "tensor in an attribute": (
        model("{ [k] y = Constant<value = float[2] {1, 2}>() }"),
        model("{ [k] y = Constant<value = float[2] {1, -2}>() }"),
        "output 0 'y' <- Constant 'k' attribute 'value': element [1]: 2.0 vs -2.0",
    ),
    "element": (
        model("<float[2, 2] w = {1, 2, 3, 4}> { a = Relu(x) [add_1] y = Add(a, w) }"),
        model("<float[2, 2] v = {1, 2, 5, 6}> { a = Relu(x) [add_1] y = Add(a, v) }"),
        "output 0 'y' <- Add 'add_1' input 1 <- initializer 'w': element [1, 0]: 3.0 vs 5.0 and 1 more",
    ),
    "signed zero": (
        model("<float w = {0}> { [n] y = Add(x, w) }"),
        model("<float w = {-0.0}> { [n] y = Add(x, w) }"),
        "output 0 'y' <- Add 'n' input 1 <- initializer 'w': 0.0 vs -0.0",
    ),
    "shape of a constant": (
        model("<float[2] w = {1, 2}> { [n] y = Add(x, w) }"),
        model("<float[1, 2] w = {1, 2}> { [n] y = Add(x, w) }"),
        "output 0 'y' <- Add 'n' input 1 <- initializer 'w': shape [2] vs [1, 2]",
    ),
    "type of a constant": (
        model("<int32[1] w = {1}> { [n] y = Add(x, w) }"),
        model("<int64[1] w = {1}> { [n] y = Add(x, w) }"),
        "output 0 'y' <- Add 'n' input 1 <- initializer 'w': element type INT32 vs INT64",
    ),
    "what is read": (
        model("<float[1] w = {1}> { [a] a = Relu(x) [n] y = Add(a, w) }"),
        model("<float[1] w = {1}> { [a] a = Relu(x) [n] y = Add(x, w) }"),
        "output 0 'y' <- Add 'n' input 0: Relu 'a' vs input 'x'",
    ),
    "which output": (
        model("{ [s] a, b = Split<num_outputs = 2>(x) [n] y = Abs(a) }"),
        model("{ [s] a, b = Split<num_outputs = 2>(x) [n] y = Abs(b) }"),
        "output 0 'y' <- Abs 'n' input 0: Split 's' vs output 1 of Split 's'",
    ),
    "number of inputs": (
        model("{ [n] y = Sum(x, x) }"),
        model("{ [n] y = Sum(x) }"),
        "output 0 'y' <- Sum 'n': 2 inputs vs 1 input",
    ),
    "missing input": (
        model("{ [n] y = Clip(x, , x) }"),
        model("{ [n] y = Clip(x, x, x) }"),
        "output 0 'y' <- Clip 'n' input 1: nothing vs input 'x'",
    ),
    "outputs asked for": (
        model("{ [n] y, m = Dropout(x) }"),
        model("{ [n] y = Dropout(x) }"),
        "output 0 'y': Dropout 'n' has 2 outputs vs 1 output",
    ),
    "sharing": (
        model("{ [a] a = Relu(x) [n] y = Add(a, a) }"),
        model("{ [a] a = Relu(x) [b] b = Relu(x) [n] y = Add(a, b) }"),
        "output 0 'y' <- Add 'n' input 1: a reads Relu 'a' again, b reads another one, Relu 'b'",
    ),
    "sharing the other way round": (
        model("<float v = {1}, float w = {1}> { a = Add(x, v) [n] y = Mul(a, w) }"),
        model("<float w = {1}> { a = Add(x, w) [n] y = Mul(a, w) }"),
        "output 0 'y' <- Mul 'n' input 1: b reads initializer 'w' again, a reads another one, initializer 'w'",
    ),
    "input names": (
        model("{ y = Relu(x) }"),
        model("{ y = Relu(z) }", inputs="float[4] z"),
        "input 0: 'x' vs 'z'",
    ),
    "output types": (
        model("{ y = Relu(x) }"),
        model("{ y = Relu(x) }", outputs="double[4] y"),
        "output 0 'y': float vs double",
    ),
    "number of outputs": (
        model("{ y = Relu(x) }"),
        model("{ y = Relu(x) z = Abs(x) }", outputs="float[4] y, float[4] z"),
        "1 output vs 2 outputs",
    ),
    "overridable constant": (
        model("<float[4] w = {1, 2, 3, 4}> { y = Add(x, w) }", inputs="float[4] x, float[4] w"),
        model("{ y = Add(x, w) }", inputs="float[4] x, float[4] w"),
        "input 1 'w': has an initial value only in a",
    ),
    "opset": (
        model("{ y = Relu(x) }"),
        model("{ y = Relu(x) }", opset=17),
        "opset version of domain 'ai.onnx': 18 vs 17",
    ),
    "dead nodes": (
        model("{ y = Relu(x) [a] a = Abs(x) [b] b = Neg(a) }"),
        model("{ y = Relu(x) }"),
        "a has 2 nodes that reach no output (Abs 'a'), b has none",
    ),
    "other dead nodes": (
        model("{ y = Relu(x) [a] a = Abs(x) }"),
        model("{ y = Relu(x) [b] a = Neg(x) }"),
        "a has 1 node that reaches no output (Abs 'a'), b has others",
    ),
    "dead constants": (
        model("{ y = Relu(x) }"),
        model("<float w = {1}> { y = Relu(x) }"),
        "b has 1 initializer that is not used ('w'), a has none",
    ),
    "nested": (
        model(IF % "b = Relu(x) [n] u = Exp(b)", inputs=CONDITION),
        model(IF % "b = Neg(x) [n] u = Exp(b)", inputs=CONDITION),
        "output 0 'y' <- If -> 'y' attribute 'then_branch' output 0 'u' <- Exp 'n' input 0: "
        "Relu -> 'b' vs Neg -> 'b'",
    ),
    "nested or not": (
        model("{ [b] b = Relu(x) " + (IF % "[n] u = Exp(b)")[1:], inputs=CONDITION),
        model(IF % "[b] b = Relu(x) [n] u = Exp(b)", inputs=CONDITION),
        "output 0 'y' <- If -> 'y' attribute 'then_branch' output 0 'u' <- Exp 'n' input 0: "
        "Relu 'b' is in another graph than Relu 'b'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MESSAGES)
def test_names_the_way_to_the_first_difference(what: str):
    one, other, message = MESSAGES[what]
    assert str(first_difference(one, other)) == message
    assert first_difference(one, one) is None
    with pytest.raises(AssertionError) as raised:
        assert_structurally_equal(one, other)
    assert str(raised.value) == f"not the same structure: {message}"


FUNCTION = """<ir_version: 10, opset_import: ["": 18, "f": 1]> g (float[4] x) => (float[4] y) {{ y = f.F(x) }}
<domain: "f", opset_import: ["": {opset}]> F (a) => (b) {{ [r] c = {op}(a) [n] b = Neg(c) }}
<domain: "f", opset_import: ["": 18]> Unused (a) => (b) {{ b = {unused}(a) }}"""


def test_compares_the_functions_that_are_called():
    reference = ir.from_onnx_text(FUNCTION.format(opset=18, op="Relu", unused="Abs"))
    unused = ir.from_onnx_text(FUNCTION.format(opset=18, op="Relu", unused="Exp"))
    assert structurally_equal(reference, unused)
    other = ir.from_onnx_text(FUNCTION.format(opset=18, op="Abs", unused="Abs"))
    path = "function 'f::F' <- output 0 'b' <- Neg 'n' input 0"
    assert str(first_difference(reference, other)) == f"{path}: Relu 'r' vs Abs 'r'"
    older = ir.from_onnx_text(FUNCTION.format(opset=17, op="Relu", unused="Abs"))
    assert str(first_difference(reference, older)) == ("function 'f::F' <- opset version of domain 'ai.onnx': 18 vs 17")
    del older.functions["f", "F", ""]
    assert str(first_difference(reference, older)) == "function 'f::F': defined only in a"
    functions = [each.functions["f", "F", ""] for each in (reference, other)]
    assert not structurally_equal(*functions)
    assert structurally_equal(functions[0], functions[0])
    with pytest.raises(UsageError, match="function"):
        structurally_equal(functions[0], reference)


def test_bits_decide_where_numbers_look_the_same():
    arrays = [np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001)]
    models = [model("<float[1] w = {0}> { y = Add(x, w) }") for _ in arrays]
    for each, array in zip(models, arrays, strict=True):
        each.graph.initializers["w"].const_value = ir.Tensor(array)
    assert str(first_difference(*models)).endswith("initializer 'w': element [0]: nan (other bits) vs nan")


def test_long_ways_are_shortened_and_deep_graphs_are_fine():
    def chain(first: str) -> ir.Graph:
        x = ir.val("x", ir.DataType.FLOAT, [1])
        nodes = [ir.Node("", first, [x], name="n0")]
        for index in range(1, 5_000):
            nodes.append(ir.Node("", "Relu", [nodes[-1].outputs[0]], name=f"n{index}"))
        nodes[-1].outputs[0].name = "y"
        return ir.Graph([x], nodes[-1].outputs, nodes=nodes, opset_imports={"": 18})

    assert structurally_equal(chain("Relu"), chain("Relu"))
    assert str(first_difference(chain("Relu"), chain("Abs"))) == (
        "output 0 'y' <- Relu 'n4999' input 0 <- Relu 'n4998' input 0 <- … 4993 more … "
        "<- Relu 'n4' input 0 <- Relu 'n3' input 0 <- Relu 'n2' input 0 <- Relu 'n1' input 0: "
        "Relu 'n0' vs Abs 'n0'"
    )


def test_graphs_that_read_from_outside_are_compared_by_the_names_they_read():
    one, other = (model(IF % f"u = Relu({read})", inputs=f"{CONDITION}, float[4] z") for read in ("x", "z"))
    branches = [each.graph[0].attributes["then_branch"].as_graph() for each in (one, other)]
    assert structurally_equal(branches[0], branches[0])
    assert str(first_difference(*branches)).endswith("input 0: input 'x' vs input 'z'")
