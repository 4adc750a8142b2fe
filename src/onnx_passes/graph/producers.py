"""The producers of values, by operator."""

from __future__ import annotations

from typing import TypeGuard

import onnx_ir as ir


def is_standard(node: ir.Node | None, *operators: str) -> TypeGuard[ir.Node]:
    """Return whether a node is one of these operators of ONNX."""
    return node is not None and node.domain == "" and node.op_type in operators


def made_by(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return the producer of a value if it is one of these operators of ONNX; None otherwise."""
    node = None if value is None else value.producer()
    return node if is_standard(node, *operators) else None
