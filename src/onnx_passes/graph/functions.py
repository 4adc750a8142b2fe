"""Functions of models: the attributes of a call, and the size of a model with every call replaced by its body."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes

MOST_NODES = 2**20
"""Models that expand to more nodes are not expanded: nested functions can make any number of them."""


def expanded_size(model: ir.Model) -> int:
    """Count the nodes of a model with all function calls expanded, without expanding it."""
    sizes: dict[ir.OperatorIdentifier, int] = {}
    entered: set[ir.OperatorIdentifier] = set()
    todo = list(model.functions)
    while todo:
        identifier = todo[-1]
        if identifier in sizes:
            todo.pop()
            continue
        called = [node.op_identifier() for node in all_nodes(model.functions[identifier])]
        if identifier not in entered:
            entered.add(identifier)
            todo += {call for call in called if call in model.functions and call not in entered}
            continue
        # A call of a function that is being visited is recursion, which nothing expands.
        sizes[identifier] = sum(sizes.get(call, 1) for call in called)
        todo.pop()
    return sum(sizes.get(node.op_identifier(), 1) for node in all_nodes(model.graph))


def fill_in_attributes(body: ir.Function, given: Mapping[str, ir.Attr]) -> None:
    """Replace the references of a function to its attributes by the attributes of a call."""
    for node in body.all_nodes():
        for attribute in [attribute for attribute in node.attributes.values() if attribute.is_ref()]:
            actual = given.get(attribute.ref_attr_name or "")
            if actual is None or (actual.value is None and not actual.is_ref()):
                # An attribute without value and default is omitted inside, too.
                del node.attributes[attribute.name]
            elif actual.is_ref():
                reference = ir.RefAttr(attribute.name, actual.ref_attr_name or "", actual.type)
                node.attributes.add(reference)
            else:
                node.attributes.add(ir.Attr(attribute.name, actual.type, actual.value, doc_string=attribute.doc_string))


def called_graph(function: ir.Function, call: ir.Node) -> ir.Graph:
    """Return the graph of a function with the attributes of a call: a copy only if it refers to any."""
    if not any(attribute.is_ref() for node in all_nodes(function) for attribute in node.attributes.values()):
        return function.graph
    body = function.clone(deep_copy=True)
    fill_in_attributes(body, {**function.attributes, **call.attributes})
    return body.graph
