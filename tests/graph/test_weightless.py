from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph.weightless import encode_weightless, weightless
from tests.helpers.random_models import random_model


def inferred(given: onnx.ModelProto | bytes) -> dict[str, onnx.TypeProto]:
    found = onnx.shape_inference.infer_shapes(given, data_prop=True)
    proto = onnx.ModelProto.FromString(found) if isinstance(found, bytes) else found
    return {value.name: value.type for value in (*proto.graph.value_info, *proto.graph.output)}


@given(st.integers(0, 10_000))
def test_encoded_form_says_the_same_about_types_and_shapes(seed):
    model = random_model(seed)
    for node in model.graph:
        for value in node.outputs:
            if not value.is_graph_output():
                value.type = value.shape = None
    computed = {value.name for node in model.graph for value in node.outputs}
    encoded, plain = inferred(encode_weightless(model)), inferred(weightless(model))
    assert {name: encoded.get(name) for name in computed} == {name: plain.get(name) for name in computed}
    assert computed <= set(encoded)


def big_model() -> ir.Model:
    graph = "g (float[1,600] x, float[600,4] w) => (float[1,4] y) { y = MatMul(x, w) }"
    model = ir.from_onnx_text(f'<ir_version: 9, opset_import: ["": 18]> {graph}')
    weight = model.graph.inputs.pop()
    weight.const_value = ir.Tensor(np.zeros((600, 4), np.float32), name="w")
    model.graph.register_initializer(weight)
    return model


def test_big_weights_are_left_out_and_typed():
    encoded = encode_weightless(big_model())
    assert len(encoded) < 1000
    proto = onnx.ModelProto.FromString(encoded)
    assert not proto.graph.initializer
    assert {value.name for value in proto.graph.input} == {"x", "w"}


def test_chosen_initializers_are_left_out():
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["": 18]> g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }'
    )
    assert len(onnx.ModelProto.FromString(encode_weightless(model)).graph.initializer) == 1
    assert not onnx.ModelProto.FromString(encode_weightless(model, without={"w"})).graph.initializer
