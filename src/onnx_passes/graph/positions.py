"""Floats that are computed only from positions and sizes: indices, rotation angles, sizes of images."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor

_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32})
_FEW = 4096
"""Larger constants are data of a layer."""


class Positions:
    """Distinguishes nodes that compute only with positions or sizes; nodes must be asked in graph order."""

    def __init__(self) -> None:
        self._found: set[ir.Value] = set()

    def only(self, node: ir.Node) -> bool:
        """Return whether all floats that a node reads are positions or sizes, or whether it casts integers."""
        if node.op_type == "Cast":
            first = node.inputs[0]
            found = first is not None and first.dtype in _INTEGERS
        else:
            given = [value for value in node.inputs if value is not None and constant_tensor(value) is None]
            floats = [value for value in given if value.dtype is not None and value.dtype.is_floating_point()]
            weights = sum(tensor.size for value in node.inputs if (tensor := constant_tensor(value)) is not None)
            found = bool(floats) and all(value in self._found for value in floats) and weights <= _FEW
        if found or node.op_type == "Range":
            self._found.update(node.outputs)
        return found
