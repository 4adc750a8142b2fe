"""Every operator that is defined has an inference in each of its domains."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

from onnx_passes.analysis.shapes.onnxruntime_shapes import add_custom_operators, by_definition
from onnx_passes.ops.definition import definitions


@pytest.fixture(scope="module")
def registry() -> OpShapeInferenceRegistry:
    made = OpShapeInferenceRegistry()
    add_custom_operators(made)
    return made


def test_every_definition_is_registered(registry: OpShapeInferenceRegistry):
    for definition in definitions():
        for domain in definition.domains:
            for name in (definition.name, *definition.aliases):
                assert registry.get(domain, name, version=1) is by_definition


def test_inference_that_is_there_already_stays():
    def own(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer nothing."""

    registry = OpShapeInferenceRegistry()
    registry.register("finn", "Quant")(own)
    add_custom_operators(registry)
    assert registry.get("finn", "Quant", version=1) is own


@pytest.mark.parametrize("inputs", [5, 6])
def test_versions_that_share_a_name_are_told_apart(registry: OpShapeInferenceRegistry, inputs: int):
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT16), shape=ir.Shape([2, "N"]))
    parameters = [ir.Value(name=f"p{number}", shape=ir.Shape([])) for number in range(inputs - 1)]
    node = ir.Node("qonnx.custom_op.general", "Trunc", [x, *parameters])
    infer = registry.get("qonnx.custom_op.general", "Trunc", version=1)
    assert infer is not None
    infer(ShapeInferenceContext({"": 18}), node)
    output = node.outputs[0]
    assert (output.dtype, str(output.shape)) == (ir.DataType.FLOAT16, "[2,N]")
