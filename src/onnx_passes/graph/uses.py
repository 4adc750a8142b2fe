"""Who uses a value."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

_STATISTICS = (3, 4)
"""The inputs of BatchNormalization that are the running mean and variance."""


def is_used_elsewhere(value: ir.Value) -> bool:
    """Tell whether a value inside a match has other users than the one of the match."""
    return value.is_graph_output() or len(value.uses()) > 1


def is_only_read_by(value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Tell whether neither a caller nor any other node reads a value."""
    return not value.is_graph_output() and all(use.node in nodes for use in value.uses())


def is_overwritten(value: ir.Value) -> bool:
    """Tell whether ONNX Runtime writes where a value lies: what training updates stays in its place."""
    return any(is_updated(use.node, use.idx) for use in value.uses())


def is_updated(node: ir.Node, index: int) -> bool:
    """Tell whether an input of a node are statistics that training updates."""
    training = (node.domain, node.op_type) == ("", "BatchNormalization") and node.attributes.get_int("training_mode", 0)
    return bool(training) and index in _STATISTICS
