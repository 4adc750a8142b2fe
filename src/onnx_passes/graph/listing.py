"""Print a model compactly, with a line for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from onnx_passes.graph.hashing.content import Contents, present_inputs, present_outputs, subgraphs
from onnx_passes.graph.wording import attribute_text, operator_name, tensor_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def listing(model: ir.Model | ir.Graph | ir.Function, contents: Contents | None = None) -> list[str]:
    """Return the lines of a model: imports, interface, constants, nodes, functions; large constants elided.

    Pass the same ``contents`` again to digest the constants of several versions of a model only once.
    """
    contents = contents or Contents()
    if isinstance(model, ir.Function):
        return list(_function(model, contents))
    graph = model.graph if isinstance(model, ir.Model) else model
    lines = [*_imports(graph), *_graph(graph, contents)]
    if isinstance(model, ir.Model):
        for function in model.functions.values():
            lines.extend(_function(function, contents))
    return lines


def call_text(node: ir.Node, contents: Contents | None = None) -> str:
    """Return operator, attributes and inputs of a node: ``Conv<strides=[1,1]>(x, w)``."""
    attributes = [
        f"{attribute.name}={_attribute(attribute, contents)}"
        for attribute in node.attributes.values()
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) or attribute.is_ref()
    ]
    inputs = ", ".join("" if value is None else value.name or "?" for value in present_inputs(node))
    return f"{operator_name(node)}{_bracketed(attributes)}({inputs})"


def results_text(node: ir.Node) -> str:
    """Return the names of the outputs of a node."""
    wanted = zip(node.outputs, present_outputs(node), strict=False)
    return ", ".join(value.name or "?" if present else "" for value, present in wanted)


def constant_text(value: ir.Value, contents: Contents | None = None) -> str:
    """Return name, type, shape and elements of an initializer, or a digest instead of many elements."""
    tensor = value.const_value
    return f"{value.name}: {'no value' if tensor is None else _tensor(tensor, contents)}"


def _function(function: ir.Function, contents: Contents) -> Iterator[str]:
    inputs = ", ".join(value.name or "?" for value in function.inputs)
    outputs = ", ".join(value.name or "?" for value in function.outputs)
    name = "::".join(filter(None, function.identifier()))
    yield f"function {name}{_bracketed(function.attributes)}({inputs}) => ({outputs})"
    for line in (*_imports(function.graph), *_nodes(function.graph, contents)):
        yield f"  {line}"


def _imports(graph: ir.Graph) -> Iterator[str]:
    for domain, version in sorted(graph.opset_imports.items()):
        yield f"import {domain or 'ai.onnx'} {version}"


def _graph(graph: ir.Graph, contents: Contents) -> Iterator[str]:
    for value in graph.inputs:
        yield f"input {value_text(value)}"
    yield from _nodes(graph, contents)
    for value in graph.outputs:
        yield f"output {value_text(value)}"


def _nodes(graph: ir.Graph, contents: Contents) -> Iterator[str]:
    for value in graph.initializers.values():
        yield f"constant {constant_text(value, contents)}"
    for node in graph:
        comment = f"  # {node.name}" if node.name else ""
        yield f"{results_text(node)} = {call_text(node, contents)}{comment}"
        for attribute, position, nested in subgraphs(node):
            yield f"  {attribute}{f'[{position}]' if position else ''}:"
            for line in _graph(nested, contents):
                yield f"    {line}"


def _bracketed(attributes: Iterable[str]) -> str:
    text = ", ".join(attributes)
    return f"<{text}>" if text else ""


def _attribute(attribute: ir.Attr, contents: Contents | None) -> str:
    if attribute.type == ir.AttributeType.TENSOR and not attribute.is_ref():
        return _tensor(attribute.as_tensor(), contents)
    return attribute_text(attribute, comma=",")


def _tensor(tensor: ir.TensorProtocol, contents: Contents | None) -> str:
    text = tensor_text(tensor)
    return f"{text} #{contents.tensor(tensor).hex()[:8]}" if contents and text.endswith("]") else text
