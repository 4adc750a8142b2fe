"""Operators of version 0.4, saved as functions of its own domain, that are equivalent to operators defined here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.ops.definition import GENERAL_DOMAINS, OUR_DOMAIN
from onnx_passes.rewrite.editor import Editor

DOMAIN = "onnx_passes.ops"
_ROUNDING = ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO")
"""The rounding modes of its Quant; it rounds to even for any other."""


def adopt(model: ir.Model, editor: Editor) -> None:
    """Replace calls of its functions by operators that are defined here.

    Uncalled functions of its domain are removed; functions without a counterpart stay.
    """
    for scope in (model.graph, *(function for key, function in model.functions.items() if key[0] != DOMAIN)):
        for node in all_nodes(scope):
            found = _counterpart(node) if node.domain == DOMAIN and not node.overload else None
            if found is None:
                continue
            domain, attributes = found
            if domain not in scope.opset_imports:
                editor.change("domain of an operator", (), partial(scope.opset_imports.setdefault, domain, 1))
            if not editor.update(
                f"operator for the call of {node.op_type}", node, domain=domain, attributes=attributes
            ):
                return
    called = _called(model)
    unused = [key for key in model.functions if key[0] == DOMAIN and key not in called]
    if unused:
        editor.change("functions that nothing calls", (), partial(_remove, model, unused))


def _counterpart(node: ir.Node) -> tuple[str, Mapping[str, ir.Attr | None]] | None:
    """Return the domain in which an operator is known here, and its attributes if they are others."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    match node.op_type:
        case "Quant" if node.attributes.get_string("rounding_mode", "") in _ROUNDING:
            return GENERAL_DOMAINS[0], {}
        case "MultiThreshold":
            return OUR_DOMAIN, {}
        case "LayoutConverter" if (layouts := _layouts(node)) is not None:
            return OUR_DOMAIN, layouts
        case _:
            return None


def _layouts(node: ir.Node) -> dict[str, ir.Attr | None] | None:
    """Return the layouts that the order of axes leads from and to, if each axis has a letter of its own."""
    letters, order = node.attributes.get_strings("assumes"), node.attributes.get_ints("perm")
    if not letters or not order or len(set(letters)) < len(letters) or any(len(letter) != 1 for letter in letters):
        return None
    if sorted(order) != list(range(len(letters))):
        return None
    layouts = {"from_layout": "".join(letters), "to_layout": "".join(letters[axis] for axis in order)}
    gone: dict[str, ir.Attr | None] = dict.fromkeys(node.attributes)
    return gone | {name: ir.AttrString(name, text) for name, text in layouts.items()}


def _remove(model: ir.Model, unused: Sequence[ir.OperatorIdentifier]) -> None:
    """Remove functions of the domain, and the domain if it is unused then."""
    for key in unused:
        del model.functions[key]
    for scope in (model.graph, *model.functions.values()):
        if not any(node.domain == DOMAIN for node in all_nodes(scope)):
            scope.opset_imports.pop(DOMAIN, None)


def _called(model: ir.Model) -> set[ir.OperatorIdentifier]:
    """Return the functions that the graph calls, directly or indirectly."""
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
