"""Float networks are streamlined; quantized ones are left to what follows."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper

from onnx_passes import apply
from onnx_passes.graph import annotations
from onnx_passes.passes.streamline.streamline_floats import StreamlineFloats
from tests.passes.tools import model_of, operators, run

RESIDUAL = """g (float[1, 3, 2] x) => (float[1, 3, 2] y)
<float s = {0.5}, float[2, 2] w = {1, 2, -3, 0.5}, float[2] b = {1, -2}> {
    m = Mul (x, s)  p = MatMul (m, w)  q = Add (b, p)  y = Add (m, q)
}"""
SANDWICH = """g (float[1, 3, 4] x) => (float[1, 3, 4] y)
<float[3] b = {1, 2, 3}, int64[2] s = {-1, 12}, int64[3] t = {1, 3, 4}> {
    a = Transpose <perm = [0, 2, 1]> (x)  c = Add (a, b)  d = Relu (c)  e = Transpose <perm = [0, 2, 1]> (d)
    f = Reshape (e, s)  g = Neg (f)  y = Reshape (g, t)
}"""


@pytest.mark.parametrize(("text", "expected"), [(RESIDUAL, "MatMul Add Add Mul"), (SANDWICH, "Add Relu Neg")])
@pytest.mark.parametrize("name", ["streamline-floats", "streamline"])
def test_what_belongs_together_comes_together(text, expected, name):
    assert operators(apply(model_of(text), name).model.graph) == expected.split()


@pytest.mark.parametrize(
    "node",
    ["r = Round (x)", "r = Floor (x)", "r = Sign (x)", "r = qonnx.custom_op.general.BipolarQuant (x, s)"],
)
def test_models_that_round_are_left_alone(node):
    text = RESIDUAL.replace("m = Mul (x, s)", f"{node}  m = Mul (r, s)")
    model = model_of(text, domains='"qonnx.custom_op.general": 1')
    assert not StreamlineFloats()(model).modified


def test_models_with_annotated_types_are_left_alone():
    model = model_of(RESIDUAL)
    annotations.set(model.graph.inputs[0], {"finn_datatype": "INT4"})
    assert not StreamlineFloats()(model).modified


def random_network(seed: int) -> ir.Model:
    """Make a network of linear layers, factors, residual joins, transpositions and activations."""
    rng, arrays = random.Random(seed), np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def constant(array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"c{len(weights)}"))
        return weights[-1].name

    def add(op_type: str, *inputs: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op_type, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    pool = ["x"]
    for _ in range(rng.randrange(4, 14)):
        value = rng.choice(pool[-3:])
        match rng.randrange(7):
            case 0 | 1:
                factor = constant(np.array(rng.choice([0.5, 0.37, -2.0])))
                value = add("Mul", *rng.sample([value, factor], 2))
            case 2:
                value = add("MatMul", value, constant(arrays.normal(size=(4, 4)) / 2))
            case 3:
                value = add(rng.choice(["Add", "Sub"]), *rng.sample([value, constant(arrays.normal(size=4))], 2))
            case 4:
                value = add(rng.choice(["Add", "Sub"]), value, rng.choice(pool[-4:]))
            case 5:
                value = add(rng.choice(["Relu", "LeakyRelu", "Sigmoid", "Neg"]), value)
            case _:
                value = add("Transpose", value, perm=[0, 2, 1])
        pool.append(value)
    ends = {name for node in nodes for name in node.output} - {name for node in nodes for name in node.input}
    values = [helper.make_tensor_value_info(name, 1, [2, 4, 4]) for name in ("x", *sorted(ends))]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], weights)
    return ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


@pytest.mark.parametrize("seed", range(20))
def test_random_networks_compute_the_same_with_no_more_factors(seed):
    model = random_network(seed)
    feeds = {"x": np.random.default_rng(seed).normal(size=(2, 4, 4)).astype(np.float32)}
    expected = run(model, feeds)
    result = apply(model, "streamline-floats").model
    for found, wanted in zip(run(result, feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    for name in ("Mul", "Transpose"):
        assert operators(result.graph).count(name) <= operators(model.graph).count(name)
    assert not apply(result, "streamline-floats").record.modified
