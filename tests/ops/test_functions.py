"""Functions of custom operators: one for each variant, named by what tells it from others."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.core.errors import ModelError
from onnx_passes.ops.definition import definition_of
from onnx_passes.ops.functions import MARK, Functions
from onnx_passes.ops.multi_threshold import MultiThreshold
from onnx_passes.ops.quant import BipolarQuant, Quant
from tests.ops.tools import one_node

X = np.zeros((1, 3, 2, 2), np.float32)


def function_of(model: ir.Model, functions: Functions | None = None) -> ir.Function:
    node = model.graph[0]
    definition = definition_of(node)
    assert definition is not None
    return (functions or Functions(model.opset_imports)).get(definition, node)


def quant(**attributes: object) -> ir.Model:
    return one_node(Quant, X, np.float32(0.5), np.float32(0), np.float32(4), **attributes)


def test_inputs_are_those_of_the_definition_and_nothing_is_known_of_them():
    function = function_of(quant(signed=1))
    assert [value.name for value in function.inputs] == ["x", "scale", "zeropt", "bitwidth"]
    assert all(value.type is None and value.shape is None for value in function.inputs)
    assert {node.domain for node in function} == {""}
    assert dict(function.opset_imports) == {"": 18}
    assert function.metadata_props[MARK] == "Quant"


def test_the_node_is_left_alone():
    model = quant(signed=1)
    function_of(model)
    node = model.graph[0]
    assert all([use.node for use in value.uses()] == [node] for value in node.inputs)


def test_what_is_said_and_what_is_meant_are_one_variant():
    functions = Functions({"": 18})
    said = function_of(quant(signed=1, narrow=0, rounding_mode="round"), functions)
    assert function_of(quant(), functions) is said
    assert function_of(quant(narrow=1), functions) is not said


def test_names_that_are_taken_get_a_number():
    taken = [("qonnx.custom_op.general", "BipolarQuant", "float")]
    model = one_node(BipolarQuant, X, np.float32(1))
    assert function_of(model, Functions({"": 18}, taken)).overload == "float_2"


def test_number_of_axes_matters_only_where_it_does():
    flat = X.reshape(3, 4)
    functions = Functions({"": 18})
    one = one_node(Quant, flat, np.float32(0.5), np.float32(0), np.float32(4))
    assert function_of(one, functions) is function_of(quant(), functions)
    rows = np.zeros((3, 1), np.float32)
    images = one_node(MultiThreshold, X, rows, out_dtype="UINT1")
    vectors = one_node(MultiThreshold, X.reshape(4, 3), rows, out_dtype="UINT1")
    assert function_of(images, functions) is not function_of(vectors, functions)


def test_refuses_what_needs_to_be_known():
    model = one_node(MultiThreshold, X, np.zeros((3, 1), np.float32), out_dtype="UINT1")
    for value in model.graph[0].inputs:
        value.shape = None
    with pytest.raises(ModelError):
        function_of(model)
