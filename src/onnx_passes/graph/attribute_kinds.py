"""Kinds of attributes by name, for standard operators and those with a definition."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

import onnx

from onnx_passes.graph.operators import Interface
from onnx_passes.graph.schemas import schema_of

KIND_NAMES = {
    int(onnx.AttributeProto.FLOAT): "a number",
    int(onnx.AttributeProto.INT): "an integer",
    int(onnx.AttributeProto.STRING): "a text",
    int(onnx.AttributeProto.TENSOR): "a tensor",
    int(onnx.AttributeProto.GRAPH): "a graph",
    int(onnx.AttributeProto.FLOATS): "a list of numbers",
    int(onnx.AttributeProto.INTS): "a list of integers",
    int(onnx.AttributeProto.STRINGS): "a list of texts",
    int(onnx.AttributeProto.TENSORS): "a list of tensors",
    int(onnx.AttributeProto.GRAPHS): "a list of graphs",
    int(onnx.AttributeProto.SPARSE_TENSOR): "a sparse tensor",
    int(onnx.AttributeProto.SPARSE_TENSORS): "a list of sparse tensors",
    int(onnx.AttributeProto.TYPE_PROTO): "a type",
    int(onnx.AttributeProto.TYPE_PROTOS): "a list of types",
}
"""Names of attribute kinds in messages."""

ATTRIBUTES: Interface[Mapping[str, int]] = Interface(
    "attributes", "the kinds of its attributes; what defines an operator says them", "onnx_passes.ops.builtin"
)


@functools.cache
def attribute_kinds(domain: str, operator: str, version: int | None) -> Mapping[str, int]:
    """Return the kind of each attribute of an operator; empty for unknown operators."""
    defined = ATTRIBUTES.get((domain, operator)) if domain else None
    if defined is not None:
        return defined
    schema = schema_of("" if domain == "ai.onnx" else domain, operator, version)
    known = {} if schema is None else schema.attributes
    return {name: int(cast(Any, attribute.type)) for name, attribute in known.items()}
