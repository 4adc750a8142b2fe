"""Types and shapes of the results of custom operators, as their definitions say."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext

from onnx_passes.graph.operators import Interface
from onnx_passes.ops.collection import definition_of, definitions

ShapeRule = Callable[[ShapeInferenceContext, ir.Node], None]
SHAPES: Interface[ShapeRule] = Interface(
    "shapes", "types and shapes of its results", "onnx_passes.analysis.shapes.onnxruntime_shapes"
)


def by_definition(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Infer what the definition of the operator says; where versions share a name, that which the node is of."""
    definition = definition_of(node)
    if definition is not None:
        definition.infer(ctx, node)


def add_custom_operators(registry: OpShapeInferenceRegistry) -> None:
    """Register the operators in every domain that has no inference of its own for them."""
    for (domain, name), rule in SHAPES.table().items():
        if not registry.has(domain, name):
            registry.register(domain, name)(rule)
    for definition in definitions():
        for domain in definition.domains:
            for name in (definition.name, *definition.aliases):
                if not registry.has(domain, name):
                    registry.register(domain, name)(by_definition)
