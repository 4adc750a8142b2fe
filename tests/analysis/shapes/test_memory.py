from __future__ import annotations

import random
import re

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.analysis.shapes.inference import Inference
from onnx_passes.core.base import Context
from onnx_passes.graph.copy import copy_model
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.helpers.thorough import some
from tests.passes.tools import values

SHAPES = """
    <ir_version: 8, opset_import: ["": 17]>
    g (float[N, 8] x, float[M, 8] z, int64[K] k, bool b) => (float y, float q, float u, float w, float t)
    <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] minus = {-1},
     float[8] c = {1, 2, 3, 4, 5, 6, 7, 8}>
    {
        s = Shape(x)
        n = Gather(s, zero)
        d = Gather(s, one)
        half = Div(d, two)
        shape = Concat <axis = 0> (n, two, half)
        r = Reshape(x, shape)
        p = Transpose <perm = [0, 2, 1]> (r)
        flat = Concat <axis = 0> (n, minus)
        y = Reshape(p, flat)
        both = Concat <axis = 0> (x, z)
        a = Add(both, c)
        q = Relu(a)
        unknown = Expand(c, k)
        u = Exp(unknown)
        w = If (b) <
            then_branch = t1 () => (float o) { v = Slice(x, zero, one) o = Neg(v) },
            else_branch = t2 () => (float o) { o = Add(x, c) }
        >
        sz = Shape(z)
        i = Slice(sz, zero, one)
        e = Expand(c, flat)
        target = Concat <axis = 0> (i, one)
        t = Expand(e, target)
    }
"""


def change(model: ir.Model, draw: random.Random) -> None:
    """Change the model as passes do, and as nobody should."""
    nodes = list(model.graph)
    node = draw.choice(nodes)
    match draw.randrange(6):
        case 0:
            index = draw.randrange(len(node.inputs))
            before = [v for earlier in nodes[: nodes.index(node)] for v in earlier.outputs]
            like = [v for v in (*model.graph.inputs, *before) if v.dtype == node.inputs[index].dtype]
            node.replace_input_with(index, draw.choice(like or [node.inputs[index]]))
        case 1:
            constant = draw.choice([v for v in model.graph.initializers.values() if v.dtype == ir.DataType.INT64])
            constant.const_value = ir.tensor(np.array([draw.choice([-1, 0, 1, 2, 4])]), name=constant.name)
        case 2:
            for output in node.outputs:
                output.shape = None
        case 3:
            transpose = next(node for node in nodes if node.op_type == "Transpose")
            transpose.attributes.add(ir.AttrInt64s("perm", draw.sample(range(3), 3)))
        case 4:
            given = draw.choice([v for v in model.graph.inputs if v.shape])
            given.shape = ir.Shape([draw.choice([1, 2, "N", "M", None]), *list(given.shape)[1:]])
        case _:
            model.graph.opset_imports[""] = draw.choice([13, 17, 18])


def described(model: ir.Model) -> list[str]:
    """Say what is known of all values; which names were made up does not matter."""
    names: dict[str, str] = {}
    found = [f"{v.name} {v.type} {v.shape} {v.const_value is not None}" for v in values(model)]
    return [re.sub(r"\b_d\d+\b", lambda name: names.setdefault(name[0], f"made-up-{len(names)}"), t) for t in found]


@pytest.mark.parametrize("seed", some(range(24), every=4))
def test_inference_of_what_changed_finds_what_a_whole_one_does(seed: int):
    draw, context = random.Random(seed), Context()
    model = ir.from_onnx_text(SHAPES)
    for _ in range(12):
        fresh = copy_model(model)
        assert (
            ShapeInference().run(model, Context(memory=context.memory)).modified
            == ShapeInference().run(fresh, Context()).modified
        )
        assert described(model) == described(fresh)
        change(model, draw)


def test_only_nodes_that_changed_are_visited(monkeypatch: pytest.MonkeyPatch):
    visited: list[str] = []
    infer = Inference._infer_node
    monkeypatch.setattr(Inference, "_infer_node", lambda self, node: (visited.append(node.op_type), infer(self, node)))
    model, context = ir.from_onnx_text(SHAPES), Context()
    ShapeInference().run(model, context)
    assert {"Transpose", "Expand", "Neg"} <= set(visited)
    visited.clear()
    ShapeInference().run(model, context)
    assert visited == ["If"], "of a node that holds graphs only what is inside is known"
    transpose = next(node for node in model.graph if node.op_type == "Transpose")
    transpose.attributes.add(ir.AttrInt64s("perm", [2, 1, 0]))
    transpose.outputs[0].shape = None
    visited.clear()
    ShapeInference().run(model, context)
    assert sorted(visited) == ["If", "Reshape", "Transpose"]


def test_elements_of_vectors_are_followed_anew():
    model, context = ir.from_onnx_text(SHAPES), Context()
    ShapeInference().run(model, context)
    by_name = {v.name: v for v in values(model)}
    assert by_name["r"].shape == ["N", 2, 4]
    by_name["s"].producer().replace_input_with(0, by_name["z"])
    by_name["r"].shape = None
    ShapeInference().run(model, context)
    assert by_name["r"].shape == ["M", 2, 4]
