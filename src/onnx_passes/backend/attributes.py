"""Attributes of a layer: complete, and as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import onnx_ir as ir

from onnx_passes.analysis.windows import windows_of
from onnx_passes.backend.network import Attribute
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.schemas import default_attribute, schema_of
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.wording import attribute_text
from onnx_passes.ops.definition import definition_of

_PLAIN = frozenset({"INT", "INTS", "FLOAT", "FLOATS", "STRING", "STRINGS"})


def attributes_of(node: ir.Node, version: int) -> Mapping[str, Attribute]:
    """Return the attributes of a node, with defaults filled in and explicit padding of windows."""
    given = {name: _value(attribute) for name, attribute in node.attributes.items()}
    return MappingProxyType(_defaults(node, version) | given | _windows(node))


def _value(attribute: ir.Attr) -> Attribute:
    if attribute.is_ref() or attribute.type.name not in _PLAIN:
        return attribute_text(attribute)
    return _frozen(attribute.value)


def _frozen(value: Any) -> Attribute:
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else value


def _defaults(node: ir.Node, version: int) -> dict[str, Attribute]:
    definition = definition_of(node)
    if definition is not None:
        known = ((attribute.name, attribute.default) for attribute in definition.attributes)
    else:
        schema = schema_of(node.domain, node.op_type, version)
        names = () if schema is None else schema.attributes
        known = ((name, default_attribute(node.domain, node.op_type, name, version)) for name in names)
    return {name: _frozen(value) for name, value in known if value is not None}


def _windows(node: ir.Node) -> dict[str, Attribute]:
    """Return kernel, strides, dilations and padding of a convolution or of pooling."""
    if node.domain or node.op_type not in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        return {}
    weight = static_shape(argument(node, 1))
    kernel = node.attributes.get_ints("kernel_shape") or (None if weight is None else weight[2:])
    if not kernel:
        return {}
    found = None if node.op_type == "ConvTranspose" else windows_of(node, kernel)
    axes = len(kernel)
    if found is not None:
        return {
            "auto_pad": "NOTSET",
            "kernel_shape": tuple(kernel),
            "strides": found.strides,
            "pads": found.pads,
            "dilations": found.dilations,
        }
    usual = {"strides": (1,) * axes, "dilations": (1,) * axes, "pads": (0,) * 2 * axes}
    missing = {name: value for name, value in usual.items() if name not in node.attributes}
    return {"kernel_shape": tuple(kernel), **missing}
