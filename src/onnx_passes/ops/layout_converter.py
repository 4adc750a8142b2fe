"""LayoutConverter and DebugMarker: a transposition that names its axes, and a value that is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.graph.wording import name_of
from onnx_passes.ops.definition import OUR_DOMAIN, Attribute, Call, Definition, Input, define

if TYPE_CHECKING:
    from onnx_shape_inference import ShapeInferenceContext

    from onnx_passes.graph.builder import Builder


@define
class LayoutConverter(Definition):
    """Transpose from one order of named axes to another, such as from NCHW to NHWC."""

    name = "LayoutConverter"
    domains = (OUR_DOMAIN,)
    inputs = (Input("x", "the values"),)
    attributes = (
        Attribute("from_layout", "string", "the axes of x, a letter each", required=True),
        Attribute("to_layout", "string", "the axes of the result, the same letters", required=True),
    )

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        return np.ascontiguousarray(inputs[0].transpose(_order(attributes)))

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return op.Transpose(call.x, perm=_order(call, name_of(call.node)))

    def infer(self, ctx: ShapeInferenceContext, node: ir.Node) -> None:
        """Infer the same type, and the shape in the other order."""
        x = node.inputs[0] if node.inputs else None
        if x is None:
            return
        order = _order(self.checked(node), name_of(node))
        is_known = x.shape is not None and len(x.shape) == len(order)
        shape = ir.Shape([x.shape[axis] for axis in order]) if x.shape is not None and is_known else None
        ctx.set_shape_and_dtype(node.outputs[0], shape, x.dtype)


def _order(attributes: Mapping[str, Any] | Call, where: str | None = None) -> list[int]:
    old, new = attributes["from_layout"], attributes["to_layout"]
    if len(set(old)) < len(old) or sorted(old) != sorted(new):
        raise ModelError(
            f"'{old}' and '{new}' are not the same axes in two orders",
            where=where,
            hint="name each axis by a letter of its own, as in NCHW and NHWC",
        )
    return [old.index(axis) for axis in new]


@define
class DebugMarker(Definition):
    """Return the input unchanged; the attribute marks the value for tools that look for it."""

    name = "DebugMarker"
    inputs = (Input("x", "the value"),)
    attributes = (Attribute("export_debug_name", "string", "the name under which the value is known", default=""),)

    def compute(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result; attributes are complete and checked."""
        return inputs[0]

    def lower(self, op: Builder, call: Call) -> ir.Value:
        """Build the result of standard operators."""
        return op.Identity(call.x)
