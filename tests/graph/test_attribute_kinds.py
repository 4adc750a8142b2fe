"""Kinds of attributes: definitions and schemas say them, and a wrong one is refused."""

import onnx
import pytest
from onnx import helper

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.attribute_kinds import attribute_kinds
from onnx_passes.graph.load import load
from onnx_passes.ops.definition import definitions

NAMES = {
    "int": onnx.AttributeProto.INT,
    "ints": onnx.AttributeProto.INTS,
    "float": onnx.AttributeProto.FLOAT,
    "string": onnx.AttributeProto.STRING,
}


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: type(definition).__name__)
def test_what_a_definition_says_is_known(definition):
    wanted = {attribute.name: NAMES[attribute.kind] for attribute in definition.attributes}
    for domain in definition.domains:
        for name in (definition.name, *definition.aliases):
            known = attribute_kinds(domain, name, 1)
            assert {key: known.get(key) for key in wanted} == wanted


def test_standard_operators_are_looked_up_in_their_version():
    assert attribute_kinds("", "Squeeze", 9) == {"axes": onnx.AttributeProto.INTS}
    assert attribute_kinds("", "Squeeze", 21) == {}
    assert attribute_kinds("nowhere", "Nothing", 1) == {}


def model(node: onnx.NodeProto, *functions: onnx.FunctionProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    graph = helper.make_graph([node], "g", [value], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("qonnx.custom_op.general", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


@pytest.mark.parametrize(
    ("node", "complaint"),
    [
        (helper.make_node("Softmax", ["x"], ["y"], axis=[0]), "'axis' of .*Softmax.* a list of integers, not an int"),
        (helper.make_node("LeakyRelu", ["x"], ["y"], alpha="a"), "holds a text, not a number"),
        (
            helper.make_node("Quant", ["x"] * 4, ["y"], domain="qonnx.custom_op.general", rounding_mode=1),
            "'rounding_mode' of .*Quant.* holds an integer, not a text",
        ),
        (
            helper.make_node("Quant", ["x"] * 4, ["y"], domain="qonnx.custom_op.general", narrow=[1]),
            "'narrow' of .*Quant.* holds a list of integers, not an integer",
        ),
    ],
)
def test_an_attribute_of_the_wrong_kind_is_refused(node, complaint):
    with pytest.raises(ModelError, match=complaint):
        load(model(node))


def test_an_integer_may_stand_for_a_number():
    load(model(helper.make_node("LeakyRelu", ["x"], ["y"], alpha=1)))


def test_an_operator_that_the_model_defines_may_have_other_attributes():
    node = helper.make_node("Quant", ["x"], ["y"], domain="qonnx.custom_op.general", narrow=[1])
    body = helper.make_node("Identity", ["a"], ["b"])
    function = helper.make_function(
        "qonnx.custom_op.general", "Quant", ["a"], ["b"], [body], [helper.make_opsetid("", 17)], ["narrow"]
    )
    load(model(node, function))
