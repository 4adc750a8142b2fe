"""Digests of fragments: equal for what computes the same in the same way, different where one thing is not the same."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.hashing.semantics import Semantics
from tests.helpers.random_models import random_model

BASE = """<ir_version: 10, opset_import: ["": 20, "local": 1]>
g (float[N,4] x, float[N,4] q, bool c) => (y) <float[2] w = {1.0, 2.0}, float k = {3.0}> {
    a = Softmax<axis = 1>(x) b = Add(a, q) s, t = Split<axis = 1, num_outputs = 2>(b)
    u = Mul(s, w) f = local.scaled<by = 2.0>(u)
    d = If (c) <then_branch = p () => (i) { h = Mul(f, t) i = Add(h, k) }, else_branch = e () => (j) { j = Neg(f) }>
    r = RandomUniformLike(d) v = Add(r, d) y = Sub(v, f) }
<domain: "local", opset_import: ["": 20]> scaled <by> (m) => (n)
    { o = Constant<value_float: float = @by>() n = Mul(m, o) }"""


def digest(text: str) -> bytes:
    model = ir.from_onnx_text(text)
    # Declared types of the model count where it is cut.
    return Fragment(tuple(model.graph), tuple(model.graph.outputs), tuple(model.graph.inputs)).digest(
        Semantics([model])
    )


DIFFERENT = {
    "attribute": ("Softmax<axis = 1>", "Softmax<axis = 0>"),
    "operator": ("v = Add(r, d)", "v = Mul(r, d)"),
    "operands": ("y = Sub(v, f)", "y = Sub(f, v)"),
    "another operand": ("b = Add(a, q)", "b = Add(a, x)"),
    "another result": ("u = Mul(s, w)", "u = Mul(t, w)"),
    "constant": ("float[2] w = {1.0, 2.0}", "float[2] w = {1.0, 2.0000002}"),
    "type of a constant": ("float k = {3.0}", "float[1] k = {3.0}"),
    "constant in a body": ("i = Add(h, k)", "i = Add(h, w)"),
    "opset": ('"": 20, "local"', '"": 12, "local"'),
    "attribute of a call": ("by = 2.0", "by = 2.5"),
    "body of a function": ("n = Mul(m, o)", "n = Add(m, o)"),
    "node of a branch": ("j = Neg(f)", "j = Abs(f)"),
    "captured value": ("j = Neg(f)", "j = Neg(u)"),
    "captured beside another": ("h = Mul(f, t)", "h = Mul(t, f)"),
    "branches exchanged": (
        "then_branch = p () => (i) { h = Mul(f, t) i = Add(h, k) }, else_branch = e () => (j) { j = Neg(f) }",
        "else_branch = p () => (i) { h = Mul(f, t) i = Add(h, k) }, then_branch = e () => (j) { j = Neg(f) }",
    ),
    "element type of an input": ("float[N,4] q", "double[N,4] q"),
    "size of an input": ("float[N,4] q", "float[N,2] q"),
    "relation of sizes": ("float[N,4] q", "float[M,4] q"),
    "order of inputs": ("float[N,4] x, float[N,4] q", "float[N,4] q, float[N,4] x"),
    "further input": ("bool c)", "bool c, float z)"),
    "draw": ("r = RandomUniformLike(d)", "r = RandomNormalLike(d)"),
    "seed of a draw": ("RandomUniformLike(d)", "RandomUniformLike<seed = 1.0>(d)"),
    "two draws": ("v = Add(r, d)", "r2 = RandomUniformLike(d) v = Add(r, r2)"),
    "output": ("=> (y)", "=> (v)"),
    "further output": ("=> (y)", "=> (y, v)"),
}
SHAPES = ("float q", "float[1] q", "float[?] q", "float[N,4] q", "float[] q")


def test_inputs_of_other_ranks_and_of_unknown_shape_are_told_apart():
    texts = [BASE.replace("float[N,4] q", shape) for shape in SHAPES]
    models = [ir.from_onnx_text(text) for text in texts]
    models.append(ir.from_onnx_text(BASE))
    models[-1].graph.inputs[1].shape = None
    found = {
        Fragment(tuple(each.graph), tuple(each.graph.outputs), tuple(each.graph.inputs)).digest(Semantics([each]))
        for each in models
    }
    shapes = {(None if (shape := each.graph.inputs[1].shape) is None else str(shape)) for each in models}
    assert len(found) == len(shapes)


SAME = {
    "names of values": ("u = Mul(s, w) f = local.scaled<by = 2.0>(u)", "uu = Mul(s, w) f = local.scaled<by = 2.0>(uu)"),
    "names in a branch": ("h = Mul(f, t) i = Add(h, k)", "hh = Mul(f, t) i = Add(hh, k)"),
    "names of inputs": ("q, bool c) => (y)", "other, bool c) => (y)"),
    "name of a size": ("[N,4]", "[batch,4]"),
    "equal values computed twice": ("y = Sub(v, f)", "f2 = local.scaled<by = 2.0>(u) y = Sub(v, f2)"),
    "what nothing reads": ("y = Sub(v, f)", "y = Sub(v, f) z = Neg(y)"),
    "equal constants": ("float k = {3.0}>", "float k = {3.0}, float k2 = {3.0}>"),
}


def changed(old: str, new: str) -> str:
    assert old in BASE
    text = BASE.replace(old, new)
    return text.replace("Add(a, q)", "Add(a, other)") if "other, bool" in new else text


@pytest.mark.parametrize("name", DIFFERENT)
def test_differs(name: str):
    assert digest(changed(*DIFFERENT[name])) != digest(BASE)


def test_all_differ_from_each_other():
    found = [digest(changed(*pair)) for pair in DIFFERENT.values()]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", SAME)
def test_is_the_same(name: str):
    assert digest(changed(*SAME[name])) == digest(BASE)


def renamed(model: ir.Model, rng: np.random.Generator) -> ir.Model:
    """Rename all that is computed, and put nodes into another order in which they can run."""
    copied = model.clone()
    for graph in copied.graphs():
        for number, value in enumerate(v for node in graph for v in node.outputs):
            if not value.is_graph_output() and value.name:
                value.name = f"{value.name}/renamed{number}"
    nodes = list(copied.graph)
    copied.graph.remove(nodes)
    waiting = [nodes[at] for at in rng.permutation(len(nodes))]
    copied.graph.extend(waiting)
    copied.graph.sort()
    return copied


@pytest.mark.parametrize("seed", range(12))
def test_names_and_order_do_not_count(seed: int):
    model, rng = random_model(seed, nodes=30), np.random.default_rng(seed)
    other = renamed(model, rng)
    assert [node.op_type for node in other.graph] != [node.op_type for node in model.graph]
    pair = [
        Fragment.between(each.graph.inputs, each.graph.outputs).digest(Semantics([each])) for each in (model, other)
    ]
    assert pair[0] == pair[1]


def test_values_of_one_model_are_told_apart():
    model = random_model(2, nodes=30)
    semantics = Semantics([model])
    values = [value for node in model.graph for value in node.outputs if node.op_type != "Constant"]
    fragments = [Fragment.between(model.graph.inputs, [value]) for value in values]
    digests = {value: fragment.digest(semantics) for value, fragment in zip(values, fragments, strict=True)}
    for a, b in itertools.combinations(values, 2):
        if digests[a] == digests[b]:
            first, second = a.producer(), b.producer()
            assert first is not None
            assert second is not None
            assert first.op_type == second.op_type


def test_two_draws_are_not_one():
    head = '<ir_version: 10, opset_import: ["": 20]> g (float[4] x) => (y)'
    one = f"{head} {{ a = RandomNormalLike(x) y = Sub(a, a) }}"
    two = f"{head} {{ a = RandomNormalLike(x) b = RandomNormalLike(x) y = Sub(a, b) }}"
    assert digest(one) != digest(two)
    assert digest(one.replace("RandomNormalLike", "Abs")) == digest(two.replace("RandomNormalLike", "Abs"))
