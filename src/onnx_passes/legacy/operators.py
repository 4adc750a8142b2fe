"""Operators of version 0.4, which it saves as functions of its own domain: those that mean what is defined here."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN

DOMAIN = "onnx_passes.ops"
_ROUNDING = ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO")
"""What its Quant knows; anything else is rounded to even there."""


def adopt(model: ir.Model) -> bool:
    """Let calls of its functions be operators that are defined here; tells whether there were any.

    Functions of its domain that nothing calls any more go; those without a counterpart are functions like any other.
    """
    scopes = [model.graph, *(function for key, function in model.functions.items() if key[0] != DOMAIN)]
    adopted = False
    for scope in scopes:
        for node in all_nodes(scope):
            domain = _adopt(node) if node.domain == DOMAIN and not node.overload else ""
            if domain:
                scope.opset_imports.setdefault(domain, 1)
                adopted = True
    return _remove_unused(model) or adopted


def _adopt(node: ir.Node) -> str:
    """Let a node be of a domain that is known here, and return that; nothing if its operator is not."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return ""
    match node.op_type:
        case "Quant" if node.attributes.get_string("rounding_mode", "") in _ROUNDING:
            node.domain = GENERAL_DOMAINS[0]
        case "MultiThreshold":
            node.domain = OUR_DOMAIN
        case "LayoutConverter" if _says_layouts(node):
            node.domain = OUR_DOMAIN
        case _:
            return ""
    return node.domain


def _says_layouts(node: ir.Node) -> bool:
    """Put the layouts that the order of axes leads from and to in its place, if each axis has a letter of its own."""
    letters, order = node.attributes.get_strings("assumes"), node.attributes.get_ints("perm")
    if not letters or not order or len(set(letters)) < len(letters) or any(len(letter) != 1 for letter in letters):
        return False
    if sorted(order) != list(range(len(letters))):
        return False
    layouts = {"from_layout": "".join(letters), "to_layout": "".join(letters[axis] for axis in order)}
    node.attributes.clear()
    node.attributes.update({name: ir.AttrString(name, text) for name, text in layouts.items()})
    return True


def _remove_unused(model: ir.Model) -> bool:
    """Remove functions of the domain that nothing calls, and the domain if no function of it is left."""
    before = len(model.functions)
    called = _called(model)
    for key in [key for key in model.functions if key[0] == DOMAIN and key not in called]:
        del model.functions[key]
    if len(model.functions) == before:
        return False
    for scope in (model.graph, *model.functions.values()):
        if not any(node.domain == DOMAIN for node in all_nodes(scope)):
            scope.opset_imports.pop(DOMAIN, None)
    return True


def _called(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Return what the graph calls, directly or by way of functions."""
    called: set[ir.OperatorIdentifier] = set()
    waiting: list[ir.Graph | ir.Function] = [
        model.graph,
        *(f for key, f in model.functions.items() if key[0] != DOMAIN),
    ]
    while waiting:
        for node in all_nodes(waiting.pop()):
            key = node.op_identifier()
            if key in model.functions and key not in called:
                called.add(key)
                waiting.append(model.functions[key])
    return called
