"""Sizes of models."""

import numpy as np
import onnx_ir as ir

from onnx_passes.core.measure import count_nodes, measure

NESTED = """
<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
g (float[2] x, bool c) => (float[2] y) <float[2] w = {1.0, 2.0}, int8[3] k = {1, 2, 3}>
{
  h = Add(x, w)
  s = my.domain.Special(h)
  y = If (c) <
    then_branch = t () => (float[2] a) <float[2] v = {3.0, 4.0}> { r = Relu(s)  a = Add(r, v) },
    else_branch = e () => (float[2] b) {
      b = If (c) <
        then_branch = tt () => (float[2] d) { d = Relu(s) },
        else_branch = ee () => (float[2] f) { f = Neg(s) }
      >
    }
  >
}
"""

FUNCTION = """
<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
g (float[2] x) => (float[2] y) { y = my.twice(x) }
<domain: "my", opset_import: ["" : 21]>
twice (x) => (y) { h = Relu(x)  y = Relu(h) }
"""


def test_nodes_and_parameters_of_subgraphs_count():
    model = ir.from_onnx_text(NESTED)
    size = measure(model)
    assert dict(size.operators) == {"Add": 2, "my.domain::Special": 1, "If": 2, "Relu": 2, "Neg": 1}
    assert size.nodes == count_nodes(model) == 8
    assert size.parameters == 2 + 3 + 2
    assert size.bytes == 8 + 3 + 8


def test_bodies_of_functions_do_not_count():
    model = ir.from_onnx_text(FUNCTION)
    assert dict(measure(model).operators) == {"my::twice": 1}
    assert count_nodes(model) == 1


def test_packed_types_count_in_whole_bytes():
    model = ir.from_onnx_text(FUNCTION)
    tensor = ir.Tensor(np.array([1, 2, 3], dtype=ir.DataType.INT4.numpy()), dtype=ir.DataType.INT4, name="w")
    model.graph.register_initializer(ir.Value(name="w", const_value=tensor))
    size = measure(model)
    assert (size.parameters, size.bytes) == (3, 2)


def test_an_initializer_without_data_counts_nothing():
    model = ir.from_onnx_text(FUNCTION)
    model.graph.initializers.add(ir.Value(name="pending"))
    assert measure(model).parameters == 0


def test_weights_are_not_read():
    def refuse():
        raise AssertionError("the weights were read")

    model = ir.from_onnx_text(FUNCTION)
    tensor = ir.LazyTensor(refuse, dtype=ir.DataType.FLOAT, shape=ir.Shape([5, 2]), name="w")
    model.graph.register_initializer(ir.Value(name="w", const_value=tensor))
    assert measure(model).bytes == 40
