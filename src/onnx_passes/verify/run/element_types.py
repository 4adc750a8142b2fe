"""Models of float16 and bfloat16, executed so that every result is rounded to their type; and types inside of a model.

ONNX Runtime computes most models of float16 in float32, between Casts of its own, and leaves out those that meet:
whether a value is rounded depends on what else reads it, so that removing a dead node changes results. A sequence of
one element behind every node keeps its Casts apart. Only so does it mean anything that two models are equal.

It has few kernels of bfloat16 on a CPU. Such a model is executed in float32 with every result rounded, which means the
same; a Cast widens each weight only when the first node that reads it is due.
"""

from __future__ import annotations

import logging

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.analysis.shapes.known_shapes import KnownShapes
from onnx_passes.analysis.shapes.symbolic_engine import infer_symbolically
from onnx_passes.core.walk import all_graphs, all_nodes
from onnx_passes.graph.builder import type_outputs
from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.copy import copy_model
from onnx_passes.graph.schemas import signature
from onnx_passes.ops.definition import definition_of

_HALF = ir.DataType.FLOAT16
_SEQUENCES_SINCE = 11
_RESULT, _SEQUENCE, _FIRST = "//result", "//sequence", "//first"


def _computes(graph: ir.Graph, dtype: ir.DataType) -> bool:
    """Return whether weights, inputs, outputs or results are of a type."""
    known = (*graph.inputs, *graph.outputs, *graph.initializers.values())
    return any(value.dtype is dtype for value in known) or any(_yields(node, dtype) for node in graph)


def _yields(node: ir.Node, dtype: ir.DataType) -> bool:
    return any(value.dtype is dtype for value in node.outputs) or _casts(node, dtype)


def _casts(node: ir.Node, dtype: ir.DataType) -> bool:
    return node.op_type == "Cast" and node.attributes.get_int("to", 0) == dtype.value


def with_rounded_halves(model: ir.Model) -> ir.Model:
    """Copy a model of float16 and let every result be rounded; any other model is returned as it is."""
    if not _computes(model.graph, _HALF) or model.opset_imports.get("", 1) < _SEQUENCES_SINCE:
        return model
    copied = copy_model(model)
    _type(copied)
    first = ir.Value(name=_FIRST, const_value=ir.Tensor(np.array(0, np.int64)), shape=ir.Shape(()))
    first.type = ir.TensorType(ir.DataType.INT64)
    copied.graph.register_initializer(first)
    for node in list(copied.graph):
        for value in node.outputs:
            if value.dtype is _HALF and value.name:
                _round(copied.graph, node, value, first)
    return copied


def _type(model: ir.Model) -> None:
    """Type every result, whatever was inferred before: two models that compute the same must be rounded alike."""
    if _propagate_types(model.graph):
        return
    infer_types(model)
    _propagate_types(model.graph)


def _propagate_types(graph: ir.Graph) -> bool:
    """Type results by schemas and definitions alone; tells whether all are known."""
    complete = True
    for node in graph:
        if any(value.dtype is None for value in node.outputs if value.name):
            given = node.inputs[0] if node.inputs else None
            if definition_of(node) is not None and given is not None and given.dtype is not None:
                node.outputs[0].dtype = given.dtype
            else:
                type_outputs(node, signature(node.domain, node.op_type, graph.opset_imports.get(node.domain, 1)))
            complete = complete and all(value.dtype is not None for value in node.outputs if value.name)
    return complete


def _round(graph: ir.Graph, node: ir.Node, value: ir.Value, first: ir.Value) -> None:
    name = str(value.name)
    sequence = ir.Node("", "SequenceConstruct", [value])
    element = ir.Node("", "SequenceAt", [sequence.outputs[0], first])
    rounded = element.outputs[0]
    value.name, sequence.outputs[0].name, rounded.name = name + _RESULT, name + _SEQUENCE, name
    rounded.type = ir.TensorType(_HALF)
    rounded.shape = None if value.shape is None else value.shape.copy()
    _read_instead(value, rounded, sequence, graph)
    graph.insert_after(node, [sequence, element])


_LOGGER = "onnx_ir.passes.common.shape_inference"


def with_shapes(model: ir.Model) -> ir.Model:
    """Return a copy of a model with the shapes inside it, those behind operators for quantized networks included."""
    copied = copy_model(model)
    infer_symbolically(copied, KnownShapes(copied.graph))
    return copied


def infer_types(model: ir.Model) -> None:
    """Let onnx infer types and shapes in place; what it cannot infer stays unknown, and nobody is told.

    Where what a model declares is false, nothing is inferred from it; then what is declared inside of the model counts
    only for values of which nothing is inferred.
    """
    _infer(model, strict=True)
    inside = [value for node in all_nodes(model.graph) for value in node.outputs if not value.is_graph_output()]
    if all(value.dtype is not None for value in inside if value.name):
        return
    declared = [(value, value.type, value.shape) for value in inside]
    for value in inside:
        value.type = value.shape = None
    _infer(model, strict=False)
    for value, type_, shape in declared:
        if value.type is None:
            value.type, value.shape = type_, shape


def _infer(model: ir.Model, *, strict: bool) -> None:
    from onnx_ir.passes.common import ShapeInferencePass

    logger = logging.getLogger(_LOGGER)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        ShapeInferencePass(check_type=strict, strict_mode=strict)(model)
    except ir.passes.PassError:
        return
    finally:
        logger.disabled = was_disabled


_SHORT, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
_BFLOAT_RESULT, _ROUNDED, _GIVEN = "//unrounded", "//bfloat16", "//wide"
_SMALL = 1024
"""Weights of no more bytes than this are widened beforehand."""


def with_wide_bfloats(model: ir.Model) -> ir.Model:
    """Copy a model of bfloat16 and let it compute in float32; any other model is returned as it is."""
    if model.functions or not _computes(model.graph, _SHORT):
        return model
    copied = copy_model(model)
    if any(value.dtype is None for node in copied.graph for value in node.outputs if value.name):
        infer_types(copied)
    for graph in (copied.graph, *all_graphs(copied.graph)):
        for node in graph:
            if any(value.dtype is None for value in node.outputs):
                version = copied.opset_imports.get(node.domain, 1)
                type_outputs(node, signature(node.domain, node.op_type, version))
        _widen(graph)
    return copied


def _widen(graph: ir.Graph) -> None:
    nodes, widened = list(graph), list[ir.Node]()
    for value in graph.initializers.values():
        if value.dtype is not _SHORT or value.const_value is None:
            continue
        if value.const_value.nbytes <= _SMALL or value.is_graph_input() or value.is_graph_output():
            value.const_value, value.type = _wide(value.const_value), ir.TensorType(_WIDE)
        elif value.uses():
            widened.append(_read_wide(value))
    for value in graph.inputs:
        if value.dtype is _SHORT and not value.is_initializer():
            graph.insert_before(nodes[0], _read_wide(value))
    for node in nodes:
        _widen_node(graph, node)
    # Of the nodes that are ready, the engine takes the first: no weight is widened as long as another node can run.
    graph.extend(widened)


def _widen_node(graph: ir.Graph, node: ir.Node) -> None:
    held = node.attributes.get("value")
    if held is not None and node.op_type in ("Constant", "ConstantOfShape"):
        tensor = held.as_tensor()
        if tensor.dtype is _SHORT:
            node.attributes.add(ir.AttrTensor("value", _wide(tensor)))
            node.outputs[0].type = ir.TensorType(_WIDE)
            node.outputs[0].const_value = None
        return
    for value in node.outputs:
        if value.dtype is not _SHORT or not value.name or constant_tensor(value) is not None:
            continue
        name, casts = value.name, _casts(node, _SHORT)
        short = value if casts else _cast(value, _SHORT, name + _ROUNDED)
        wide = _cast(short, _WIDE, name)
        casting = [_producer(one) for one in (short, wide) if one is not value]
        value.name = name + _BFLOAT_RESULT
        value.type = ir.TensorType(_SHORT if casts else _WIDE)
        _read_instead(value, wide, casting[0], graph)
        graph.insert_after(node, casting)


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
    result = ir.Node("", "Cast", [value], [ir.AttrInt64("to", dtype.value)]).outputs[0]
    result.name, result.type, result.shape = name, ir.TensorType(dtype), value.shape
    return result


def _read_wide(value: ir.Value) -> ir.Node:
    """Redirect the readers of a value to its Cast to the wide type; return the Cast."""
    wide = _cast(value, _WIDE, f"{value.name}{_GIVEN}")
    cast = _producer(wide)
    _read_instead(value, wide, cast)
    return cast


def _read_instead(value: ir.Value, made: ir.Value, reader: ir.Node, graph: ir.Graph | None = None) -> None:
    """Redirect the readers of a value, except one node, to another value, and the outputs of a graph if given."""
    for user, index in list(value.uses()):
        if user is not reader:
            user.replace_input_with(index, made)
    if graph is not None:
        graph.outputs[:] = [made if output is value else output for output in graph.outputs]


def _producer(value: ir.Value) -> ir.Node:
    producer = value.producer()
    assert producer is not None
    return producer


def _wide(tensor: ir.TensorProtocol) -> ir.Tensor[np.ndarray]:
    return ir.Tensor(tensor.numpy().astype(ml_dtypes.bfloat16).astype(np.float32), name=tensor.name)
