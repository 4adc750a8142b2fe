"""The size of a model with every function call replaced by its body."""

from __future__ import annotations

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
