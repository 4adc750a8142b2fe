"""Models around a pattern: further consumers, outputs, subgraphs, loops, and declared types and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.testing.fuzz.build import ModelInput, ModelParts
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws
from onnx_passes.testing.fuzz.site import Built
from onnx_passes.testing.fuzz.values import Shape

_NESTING = ("flat",) * 8 + ("If", "Loop")
_DIMENSIONS = ("static",) * 5 + ("by size", "separate", "some", "nameless")
_NAMES = ("plain", "plain", "empty", "like values")
_IR_VERSIONS = {18: 8, 20: 9, 21: 10, 22: 10, 23: 11}
_DATATYPE = "finn_datatype"


def surround(parts: ModelParts, draws: Draws, *, annotated: bool) -> Case:
    """Assemble a model around the nodes of a pattern."""
    outputs = list(parts.results)
    if parts.interior and draws.happens(percent=10):
        outputs.append(_read(parts, draws, draws.freely(parts.interior)))
    if parts.constants and draws.happens(percent=10):
        value = draws.freely(parts.constants)
        parts.nodes.append(_identity(value.name, "again"))
        outputs.append(Built("again", value.dtype, value.shape))
    if parts.constants and draws.happens(percent=15):
        value = draws.freely(parts.constants)
        parts.inputs.append(ModelInput(value.name, value.dtype, value.shape, value.array, overridable=True))
    if draws.happens(percent=25):
        outputs[0] = _tail(parts, outputs[0])
    nested = draws.freely(_NESTING)
    if nested == "If":
        outputs = _in_if(parts, outputs)
    elif nested == "Loop":
        outputs = _in_loop(parts, outputs)
    name_nodes([*parts.heads, *parts.nodes], draws.freely(_NAMES))
    model = _model(parts, outputs)
    other = make_dynamic(model, parts.inputs, draws)
    if draws.happens(percent=15):
        _annotate(model)
    model = _infer(model, keep=annotated or not draws.often("no shapes", percent=10))
    return Case(model.SerializeToString(), tuple(parts.inputs), draws.number(0, 7), other, _divides(parts))


def _identity(source: str, target: str) -> onnx.NodeProto:
    return onnx.helper.make_node("Identity", [source], [target])


def _read(parts: ModelParts, draws: Draws, value: Built) -> Built:
    """Make a value inside the pattern an output, or add another consumer."""
    if draws.number(0, 1):
        return value
    parts.nodes.append(_identity(value.name, "also"))
    return Built("also", value.dtype, value.shape)


def _tail(parts: ModelParts, value: Built) -> Built:
    parts.nodes.append(_identity(value.name, "tail"))
    return Built("tail", value.dtype, value.shape)


def _in_if(parts: ModelParts, outputs: list[Built]) -> list[Built]:
    """Put the pattern into a branch that captures all its inputs."""
    infos = [_info(value.name, value.dtype, None) for value in outputs]
    then = onnx.helper.make_graph(parts.nodes, "then", [], infos)
    other: list[onnx.NodeProto] = []
    for number, value in enumerate(outputs):
        parts.initializers.append(_zeros(f"z{number}", value))
        other.append(_identity(f"z{number}", f"else{number}"))
    else_infos = [_info(f"else{number}", value.dtype, None) for number, value in enumerate(outputs)]
    names = [f"if{number}" for number in range(len(outputs))]
    branches = {"then_branch": then, "else_branch": onnx.helper.make_graph(other, "else", [], else_infos)}
    parts.nodes = [cast(Any, onnx.helper.make_node)("If", ["condition"], names, **branches)]
    parts.inputs.append(ModelInput("condition", ir.DataType.BOOL, (), np.array(True)))
    return [Built(name, value.dtype, value.shape) for name, value in zip(names, outputs, strict=True)]


def _in_loop(parts: ModelParts, outputs: list[Built]) -> list[Built]:
    """Put the pattern into the body of a loop that collects its results."""
    inputs = [_info("step", ir.DataType.INT64, ()), _info("go", ir.DataType.BOOL, ())]
    infos = [_info("on", ir.DataType.BOOL, ()), *(_info(value.name, value.dtype, None) for value in outputs)]
    body = onnx.helper.make_graph([_identity("go", "on"), *parts.nodes], "body", inputs, infos)
    names = [f"loop{number}" for number in range(len(outputs))]
    parts.initializers.append(onnx.numpy_helper.from_array(np.array(2), "trips"))
    parts.nodes = [onnx.helper.make_node("Loop", ["trips", ""], names, body=body)]
    return [Built(name, value.dtype, (2, *value.shape)) for name, value in zip(names, outputs, strict=True)]


def _zeros(name: str, value: Built) -> onnx.TensorProto:
    if value.dtype is ir.DataType.STRING:
        return cast(Any, onnx.helper.make_tensor)(name, value.dtype.value, value.shape, [b""] * math.prod(value.shape))
    return ir.to_proto(ir.Tensor(np.zeros(value.shape, value.dtype.numpy()), value.dtype, name=name))


def _info(name: str, dtype: ir.DataType, shape: Shape | None) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, dtype.value, shape)


def name_nodes(nodes: Sequence[onnx.NodeProto], how: str) -> None:
    """Name nodes in order, after their results, or not at all."""
    for number, node in enumerate(nodes):
        if how == "plain":
            node.name = f"n{number}"
        elif how == "like values":
            node.name = node.output[0]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                name_nodes(attribute.g.node, how)


def _model(parts: ModelParts, outputs: Sequence[Built]) -> onnx.ModelProto:
    inputs = [_info(i.name, i.dtype, i.shape) for i in parts.inputs]
    unique = list({value.name: value for value in outputs}.values())
    domains = {node.domain for node in parts.nodes} - {""}
    graph = onnx.helper.make_graph(
        [*parts.heads, *parts.nodes],
        "case",
        inputs,
        # onnx cannot infer shapes of operators of other domains.
        [_info(value.name, value.dtype, value.shape if domains else None) for value in unique],
        parts.initializers,
    )
    opsets = [onnx.helper.make_opsetid("", parts.opset), *(onnx.helper.make_opsetid(d, 1) for d in sorted(domains))]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSIONS.get(parts.opset, 8))


def make_dynamic(model: onnx.ModelProto, inputs: Sequence[ModelInput], draws: Draws) -> dict[str, Shape]:
    """Declare inputs with less information than is known, and return other shapes that fit the declaration."""
    how = draws.choose("dimensions", _DIMENSIONS)
    other: dict[str, Shape] = {}
    if how == "static":
        return other
    for info, item in zip(model.graph.input, inputs, strict=False):
        if item.values is not None:
            continue
        shape = info.type.tensor_type.shape
        sizes = list(item.shape)
        for axis, dim in enumerate(shape.dim):
            if how != "some" or (axis + len(sizes)) % 2:
                size = dim.dim_value
                dim.Clear()
                if how != "nameless":
                    dim.dim_param = f"n{size}" if how == "by size" else f"{item.name}_{axis}"
                # Size 1 stays 1: otherwise the broadcasting of the first run would not fit the second.
                sizes[axis] = sizes[axis] + 2 if sizes[axis] > 1 else sizes[axis]
        other[item.name] = tuple(sizes)
    return other


def _annotate(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.doc_string = f"about {value.name}"
        model.graph.quantization_annotation.append(
            onnx.TensorAnnotation(
                tensor_name=value.name,
                quant_parameter_tensor_names=[onnx.StringStringEntryProto(key=_DATATYPE, value="INT8")],
            )
        )


def _infer(model: onnx.ModelProto, *, keep: bool) -> onnx.ModelProto:
    """Infer types and shapes with onnx; those of inner values are dropped unless ``keep``."""
    inferred = cast(Any, onnx.shape_inference.infer_shapes)(model, data_prop=True)
    if not keep:
        del inferred.graph.value_info[:]
    return inferred


def _divides(parts: ModelParts) -> bool:
    return any(node.op_type in ("Div", "Mod", "If", "Loop") for node in parts.nodes)
