"""Types and shapes of operators of ONNX Runtime and of custom operators, which the library of inference lacks."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
from onnx_shape_inference import OpShapeInferenceRegistry, ShapeInferenceContext, registry

from onnx_passes.graph.edits import detach
from onnx_passes.graph.operators import Interface
from onnx_passes.ops.definition import CONTRIBUTED_DOMAIN, definition_of, definitions

_PACKED = 2
"""Numbers of four bits in a byte."""


def _as_standard(operator: str) -> ShapeRule:
    """Return a rule that infers a variant of a standard operator by the rule of the latter."""

    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        rule = registry.get("", operator, version=ctx.get_opset_version(""))
        if rule is not None:
            rule(ctx, node)

    return infer


def _product(scale: int) -> ShapeRule:
    """Infer a matrix product of the type of its scale."""
    infer = _as_standard("MatMul")

    def infer_product(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        given, output = node.inputs[scale], node.outputs[0]
        infer(ctx, node)
        if given is not None and given.dtype is not None:
            output.type = ir.TensorType(given.dtype)

    return infer_product


def _channels_last(operator: str) -> ShapeRule:
    """Infer an operator on images whose channels come last."""
    infer = _as_standard(operator)

    def infer_images(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        x = node.inputs[0]
        if x is None or x.shape is None or len(x.shape) < 3:
            return
        batch, *sizes, channels = x.shape
        image = ir.Value(type=x.type, shape=ir.Shape([batch, channels, *sizes]))
        twin = ir.Node("", operator, [image], attributes=node.attributes.values())
        infer(ctx, twin)
        found = twin.outputs[0].shape
        detach(twin)
        if found is not None:
            batch, channels, *sizes = found
            ctx.set_shape_and_dtype(node.outputs[0], ir.Shape([batch, *sizes, channels]), x.dtype)

    return infer_images


def _gather_blocks(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    data, indices, scales = node.inputs[:3]
    if data is None or indices is None or scales is None or data.shape is None or indices.shape is None:
        return
    dims = list(data.shape)
    axis = node.attributes.get_int("gather_axis", 0) % len(dims)
    if data.dtype is ir.DataType.UINT8 and node.attributes.get_int("bits", 4) == 4:
        last = dims[-1]
        dims[-1] = last * _PACKED if isinstance(last, int) else ctx.new_symbolic_dim()
    shape = ir.Shape([*dims[:axis], *indices.shape, *dims[axis + 1 :]])
    ctx.set_shape_and_dtype(node.outputs[0], shape, scales.dtype)


_RULES: dict[str, Callable[[ShapeInferenceContext, ir.Node], None]] = {
    "DequantizeLinear": _as_standard("DequantizeLinear"),
    "DynamicQuantizeLSTM": _as_standard("LSTM"),
    "DynamicQuantizeMatMul": _product(2),
    "FusedConv": _as_standard("Conv"),
    "FusedGemm": _as_standard("Gemm"),
    "GatherBlockQuantized": _gather_blocks,
    "MatMulIntegerToFloat": _product(2),
    "NhwcMaxPool": _channels_last("MaxPool"),
    "QuantizeLinear": _as_standard("QuantizeLinear"),
}

ShapeRule = Callable[[ShapeInferenceContext, ir.Node], None]
SHAPES: Interface[ShapeRule] = Interface(
    "shapes", "types and shapes of its results", "onnx_passes.analysis.shapes.onnxruntime_shapes"
)
SHAPES.attach(_RULES, domains=(CONTRIBUTED_DOMAIN,))


def by_definition(ctx: ShapeInferenceContext, node: ir.Node) -> None:
    """Infer shapes by the definition of the operator, in the version of the node."""
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
