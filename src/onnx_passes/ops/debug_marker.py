"""DebugMarker: a value, unchanged, under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Attribute, Call, Definition, Input, define

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


@define
class DebugMarker(Definition):
    """Hand a value on as it is; the name is for those who look for it."""

    name = "DebugMarker"
    inputs = (Input("x", "the value"),)
    attributes = (Attribute("export_debug_name", "string", "the name under which the value is known", default=""),)

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        return inputs[0]

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return op.Identity(call.x)
