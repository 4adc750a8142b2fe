"""Who uses a value."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir


def is_used_elsewhere(value: ir.Value) -> bool:
    """Tell whether a value inside a match has other users than the one of the match."""
    return value.is_graph_output() or len(value.uses()) > 1


def is_only_read_by(value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Tell whether neither a caller nor any other node reads a value."""
    return not value.is_graph_output() and all(use.node in nodes for use in value.uses())
