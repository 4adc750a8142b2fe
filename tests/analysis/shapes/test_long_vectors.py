"""Vectors whose elements nobody can follow: their shapes are inferred all the same, quickly."""

import time

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.analysis.shapes.standard_engine import makes_long_vectors
from onnx_passes.graph.load import load

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def doubling(times: int, dim: str, values: str = "float[1] v0 = {1.0}") -> ir.Model:
    nodes = " ".join(f"v{n + 1} = Concat <axis = 0> (v{n}, v{n})" for n in range(times))
    return load(f"{HEAD} g (float[{dim}] x) => (float[{dim}] y) <{values}> {{ {nodes} y = Neg(x) }}".encode())


@pytest.mark.parametrize("dim", ["N", "3"])
@pytest.mark.parametrize("values", ["float[1] v0 = {1.0}", "int64[1] v0 = {1}"], ids=["float", "int64"])
def test_the_shape_of_a_long_vector_is_inferred_without_its_elements(dim, values):
    model = doubling(34, dim, values)
    assert makes_long_vectors(model.graph)
    started = time.process_time()
    result = onnx_passes.apply(model, "shape-inference", verify=False)
    assert time.process_time() - started < 5
    last = next(node for node in reversed(result.model.graph) if node.op_type == "Concat")
    assert last.outputs[0].shape == [2**34]


def test_a_long_range_is_not_followed():
    text = f"""{HEAD} g (float[3] x) => (float[3] y) <int64 a = {{0}}, int64 b = {{3000000000}}, int64 c = {{1}}> {{
      r = Range(a, b, c) s = Cast <to = 6> (r) y = Neg(x)
    }}"""
    model = load(text.encode())
    assert makes_long_vectors(model.graph)
    result = onnx_passes.apply(model, "shape-inference", verify=False)
    assert result.model.graph.node(0).outputs[0].shape == [3000000000]


def test_short_vectors_are_followed():
    text = f"""{HEAD} g (float[N,6] x) => (float[a,b,c] y) <int64[2] k = {{2, 3}}> {{
      s = Shape <end = 1> (x) t = Concat <axis = 0> (s, k) y = Reshape(x, t)
    }}"""
    model = load(text.encode())
    assert not makes_long_vectors(model.graph)
    result = onnx_passes.apply(model, "shape-inference", verify=False)
    assert [str(dim) for dim in result.model.graph.outputs[0].shape][1:] == ["2", "3"]
