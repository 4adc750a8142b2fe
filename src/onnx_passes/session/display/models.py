"""Pages of models, graphs and nodes, which are classes of onnx_ir."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import onnx_ir as ir

from onnx_passes.core.text import size_text
from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.listing import call_text, constant_text, results_text
from onnx_passes.graph.wording import attribute_text, operator_name, type_text, value_text
from onnx_passes.rewrite.match import describe_node
from onnx_passes.session.display.html import Html, code, facts, folded, joined, strong, table, title
from onnx_passes.session.display.pictures import picture_of_graph, picture_of_node

_PORTS = 8


def model_page(model: ir.Model) -> Html:
    """Show interface, operators and drawing of a model."""
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opset_imports.items())
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    functions = ", ".join("::".join(filter(None, key)) for key in model.functions)
    return graph_page(model.graph, {"opsets": opsets, "by": producer, "functions": functions})


def graph_page(graph: ir.Graph, known: Mapping[str, str] | None = None) -> Html:
    """Show interface, operators and drawing of a graph, and further facts."""
    operators = Counter(operator_name(node) for node in all_nodes(graph))
    weights = [value.const_value for value in graph.initializers.values() if value.const_value is not None]
    bytes_ = sum(tensor.nbytes for tensor in weights)
    most = ", ".join(f"{number} {name}" for name, number in operators.most_common(_PORTS))
    rest = f" and {len(operators) - _PORTS} other operators" if len(operators) > _PORTS else ""
    return joined(
        [
            title(strong(graph.name or "graph"), f": {operators.total()} nodes, {size_text(bytes_)} of weights"),
            facts(
                {
                    "inputs": _ports([value for value in graph.inputs if not value.is_initializer()]),
                    "outputs": _ports(graph.outputs),
                    "operators": most + rest,
                    **(known or {}),
                }
            ),
            picture_of_graph(graph),
        ]
    )


def function_page(function: ir.Function) -> Html:
    """Show a function like a graph."""
    return graph_page(function.graph, {"function": "::".join(filter(None, function.identifier()))})


def node_page(node: ir.Node) -> Html:
    """Show a node, its operands and results, and its neighbourhood."""
    rows = [
        ("reads", code(str(value.name)), type_text(value.type, value.shape), _origin(value))
        for value in node.inputs
        if value is not None
    ]
    rows += [
        ("computes", code(str(value.name)), type_text(value.type, value.shape), _users(value)) for value in node.outputs
    ]
    attributes = {
        name: code(attribute_text(attribute)) for name, attribute in node.attributes.items() if not attribute.is_ref()
    }
    return joined(
        [
            title(strong(describe_node(node))),
            title(code(f"{results_text(node)} = {call_text(node)}")),
            table(("", "value", "type", ""), rows),
            folded("attributes", facts(attributes)) if attributes else "",
            picture_of_node(node),
        ]
    )


def _ports(values: Iterable[ir.Value]) -> Html:
    ports = list(values)
    shown = [code(f"{value_text(value)}  ") for value in ports[:_PORTS]]
    return joined([*shown, f"and {len(ports) - _PORTS} more" if len(ports) > _PORTS else ""])


def _origin(value: ir.Value) -> object:
    producer = value.producer()
    if producer is not None:
        return f"from {describe_node(producer)}"
    return code(constant_text(value)) if value.const_value is not None else "input"


def _users(value: ir.Value) -> str:
    users = [describe_node(use.node) for use in value.uses()]
    return ", ".join([*(["output"] if value.is_graph_output() else []), *users]) or "unused"
