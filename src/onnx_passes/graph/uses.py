"""Producers and uses of values."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard

import onnx_ir as ir

_STATISTICS = (3, 4)
"""The indices of the running mean and variance of BatchNormalization."""


def is_used_elsewhere(value: ir.Value) -> bool:
    """Return whether a value inside a match has further uses."""
    return value.is_graph_output() or len(value.uses()) > 1


def is_only_read_by(value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Return whether a value is not an output, and only these nodes read it."""
    return not value.is_graph_output() and all(use.node in nodes for use in value.uses())


def is_overwritten(value: ir.Value) -> bool:
    """Return whether ONNX Runtime writes to the memory of a value, as training does for statistics."""
    return any(is_updated(use.node, use.idx) for use in value.uses())


def is_updated(node: ir.Node, index: int) -> bool:
    """Return whether an input of a node holds statistics that training updates."""
    training = (node.domain, node.op_type) == ("", "BatchNormalization") and node.attributes.get_int("training_mode", 0)
    return bool(training) and index in _STATISTICS


def is_standard(node: ir.Node | None, *operators: str) -> TypeGuard[ir.Node]:
    """Return whether a node is one of these operators of ONNX."""
    return node is not None and node.domain == "" and node.op_type in operators


def made_by(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return the producer of a value if it is one of these operators of ONNX; None otherwise."""
    node = None if value is None else value.producer()
    return node if is_standard(node, *operators) else None
