"""Messages for matches that fail, computed only on request."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.text import shortened
from onnx_passes.rewrite.match import Bindings
from onnx_passes.rewrite.patterns import AttributeConstant, AttributePattern, NodePattern, ResultPattern

_LONGEST = 60
"""Characters of a constant that are quoted."""


def other_operator(pattern: NodePattern, node: ir.Node) -> str:
    """Describe an operator that differs from the expected one."""
    return f"expected {pattern_text(pattern)}, found {operator_text(node.domain, node.op_type)}"


def other_constant(expected: object, found: object) -> str:
    """Describe a value that differs from an expected constant."""
    return f"expected the constant {expected}, found {shortened(str(found), _LONGEST)}"


def operator_text(domain: str, op_type: str) -> str:
    """Name an operator, with its domain if that is not ONNX's own."""
    return f"{domain}::{op_type}" if domain else op_type


def pattern_text(pattern: NodePattern) -> str:
    """Name the operator that a pattern expects."""
    operator = pattern.operator
    return str(pattern.op_type) if operator is None else operator_text(*operator)


def not_computed(pattern: ResultPattern, value: ir.Value | None) -> str:
    """Describe a value that is not the expected result."""
    return f"expected the result of {pattern_text(pattern.node)}, found {describe_value(value)}"


def describe_value(value: ir.Value | None) -> str:
    """Describe a value: an input, an initializer, or the result of a node."""
    if value is None:
        return "no input"
    producer = value.producer()
    if producer is not None:
        return f"'{value.name}', computed by {operator_text(producer.domain, producer.op_type)}"
    if value.is_graph_input():
        return f"the graph input '{value.name}'"
    return f"the initializer '{value.name}'" if value.is_initializer() else f"'{value.name}', which is not computed"


def two_values(name: str | None, state: Bindings, found: ir.Value | None) -> str:
    """Describe two values to which one name would have to be bound."""
    bound = state.bindings.get(name) if name is not None else None
    what = f"'{name}'" if name is not None else "one part of the pattern"
    if isinstance(bound, ir.Value):
        return f"{what} cannot be both {describe_value(bound)} and {describe_value(found)}"
    return f"{what} is something else elsewhere in the match"


def other_attribute(name: str, pattern: AttributePattern, attribute: ir.Attr | None) -> str:
    """Describe an attribute that differs from the expected one."""
    found = (
        "none"
        if attribute is None
        else "a reference"
        if attribute.is_ref()
        else shortened(str(attribute.value), _LONGEST)
    )
    if isinstance(pattern, AttributeConstant):
        return f"attribute '{name}': expected {pattern.value!r}, found {found}"
    return f"attribute '{name}' does not fit, found {found}"
