"""Nodes whose results may differ from run to run."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnx_passes.core.walk import nested_graphs

Functions = Mapping[ir.OperatorIdentifier, ir.Function]

RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators whose results may differ from run to run; for Dropout only in training mode."""

_PARTS = ("Dropout", "Random", "Sampl", "Search")
"""Parts of the names of random operators of ONNX Runtime."""


def is_random(node: ir.Node) -> bool:
    """Return whether computing a node twice may give different results; not for Dropout without a training mode."""
    if node.domain == "com.microsoft":
        return any(part in node.op_type for part in _PARTS)
    if node.domain != "" or node.op_type not in RANDOM:
        return False
    return node.op_type != "Dropout" or any(value is not None for value in node.inputs[2:])


def draws(node: ir.Node, functions: Functions, seen: set[ir.Function] | None = None) -> bool:
    """Return whether a node, a graph that it holds or a function that it calls draws random numbers."""
    seen = set[ir.Function]() if seen is None else seen
    function = functions.get(node.op_identifier()) if functions else None
    if function is None:
        if is_random(node):
            return True
    elif function not in seen:
        seen.add(function)
        if any(draws(inner, functions, seen) for inner in function):
            return True
    return any(draws(inner, functions, seen) for graph in nested_graphs(node) for inner in graph)


def draws_in(model: ir.Model) -> bool:
    """Return whether the graph of a model draws random numbers, itself or in functions that it calls."""
    return any(draws(node, model.functions) for node in model.graph)


def drawing_functions(functions: Functions) -> set[ir.OperatorIdentifier]:
    """Return the functions that draw random numbers, themselves or in functions that they call."""
    return {name for name, function in functions.items() if any(draws(node, functions) for node in function)}
