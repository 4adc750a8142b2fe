"""Words for matches that fail, found only if somebody asks for them."""

from __future__ import annotations

from typing import Any, cast

import onnx_ir as ir
from onnxscript.rewriter import _pattern_ir as language  # pyright: ignore[reportPrivateUsage]

from onnx_passes.core.text import shortened
from onnx_passes.rewrite.match import State
from onnx_passes.rewrite.patterns import operator_of

_LONGEST = 60
"""Characters of a constant that are quoted."""


def other_operator(pattern: language.NodePattern, node: ir.Node) -> str:
    """Say which operator is in the place of another."""
    return f"expected {pattern_text(pattern)}, found {operator_text(node.domain, node.op_type)}"


def other_constant(expected: object, found: object) -> str:
    """Say what is in the place of a constant."""
    return f"expected the constant {expected}, found {shortened(str(found), _LONGEST)}"


def operator_text(domain: str, op_type: str) -> str:
    """Name an operator, with its domain if that is not ONNX's own."""
    return f"{domain}::{op_type}" if domain else op_type


def pattern_text(pattern: language.NodePattern) -> str:
    """Name the operator that a pattern expects."""
    operator = operator_of(pattern)
    return str(pattern.op_type) if operator is None else operator_text(*operator)


def not_computed(pattern: language.NodeOutputPattern, value: ir.Value | None) -> str:
    """Say what is in the place of a result."""
    return f"expected the result of {pattern_text(pattern.producer())}, found {describe_value(value)}"


def describe_value(value: ir.Value | None) -> str:
    """Name a value by what it is: an input, an initializer, or the result of a node."""
    if value is None:
        return "no input"
    producer = value.producer()
    if producer is not None:
        return f"'{value.name}', computed by {operator_text(producer.domain, producer.op_type)}"
    if value.is_graph_input():
        return f"the graph input '{value.name}'"
    return f"the initializer '{value.name}'" if value.is_initializer() else f"'{value.name}', which is not computed"


def two_values(name: str | None, state: State, found: ir.Value | None) -> str:
    """Say which two values one name would have to stand for."""
    bound = state.bindings.get(name) if name is not None else None
    what = f"'{name}'" if name is not None else "one part of the pattern"
    if isinstance(bound, ir.Value):
        return f"{what} cannot be both {describe_value(bound)} and {describe_value(found)}"
    return f"{what} is something else elsewhere in the match"


def other_attribute(name: str, pattern: language.AttrPattern, attribute: ir.Attr | None) -> str:
    """Say how an attribute differs."""
    found = (
        "none"
        if attribute is None
        else "a reference"
        if attribute.is_ref()
        else shortened(str(attribute.value), _LONGEST)
    )
    if isinstance(pattern, language.AttrConstantPattern):
        return f"attribute '{name}': expected {cast(Any, pattern)._value!r}, found {found}"
    return f"attribute '{name}' does not fit, found {found}"
