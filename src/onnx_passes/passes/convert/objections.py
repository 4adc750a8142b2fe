"""Reasons for nodes to keep their floating-point type in a conversion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes.graph.constants import constant_tensor
from onnx_passes.graph.randomness import is_random
from onnx_passes.ops.facts.roundings import Positions
from onnx_passes.ops.quantizer import has_scales

Objection = Callable[[ir.Node], str]
"""Returns the reason why a node keeps its type; an empty text if it need not."""

_HOLDS_VALUE = {"Constant", "ConstantOfShape"}
_CONTAINERS = (ir.SequenceType, ir.OptionalType)


def all_of(*objections: Objection) -> Objection:
    """Return the first objection of several."""
    return lambda node: next((reason for one in objections if (reason := one(node))), "")


def unsuitable(node: ir.Node) -> str:
    """Object to nodes whose semantics depends on their element type."""
    if is_random(node):
        return "it would draw other numbers"
    if has_scales(node):
        return "its scale would be rounded"
    if node.op_type == "Cast" and node.attributes.get_int("to", 0) == ir.DataType.STRING:
        return "it writes numbers as text"
    if any(value is not None and isinstance(value.type, _CONTAINERS) for value in (*node.inputs, *node.outputs)):
        return "sequences and optional values keep their type"
    has_type = any(name in node.attributes for name in ("dtype", "output_dtype"))
    return "it names the type of its result" if has_type else ""


def overflows(greatest: Mapping[ir.Value, np.ndarray], target: ir.DataType) -> Objection:
    """Object to nodes with constants, or measured inputs or results, outside the range of a type."""
    found: dict[ir.Value, str] = {}

    def reason(value: ir.Value) -> str:
        if value not in found:
            tensor = constant_tensor(value)
            if tensor is not None:
                text = beyond(tensor.numpy(), target) if tensor.dtype.is_floating_point() else ""
            else:
                text = beyond(greatest[value], target) if value in greatest else ""
            found[value] = f"'{value.name}' {text}" if text else ""
        return found[value]

    def objection(node: ir.Node) -> str:
        if node.op_type in _HOLDS_VALUE and "value" in node.attributes:
            text = beyond(node.attributes["value"].as_tensor().numpy(), target)
            if text:
                return f"its value {text}"
        values = (value for value in (*node.inputs, *node.outputs) if value is not None)
        return next((text for value in values if (text := reason(value))), "")

    return objection


def counts() -> Objection:
    """Object to nodes that compute only positions and sizes, which a short type cannot represent exactly."""
    positions = Positions()
    return lambda node: "it computes with positions or sizes" if positions.only(node) else ""


def beyond(array: np.ndarray, target: ir.DataType) -> str:
    """Describe numbers outside the range of a type: the largest overflows, or the only one underflows."""
    kind = cast(Any, ml_dtypes.finfo(target.numpy()))
    sizes = np.abs(array[np.isfinite(array)].astype(np.float64))
    if sizes.size and sizes.max() > float(kind.max):
        return f"is {sizes.max():.3g}, and {target.name.lower()} ends at {float(kind.max):g}"
    if sizes.size == 1 and 0 < sizes[0] < float(kind.smallest_subnormal):
        return f"is {sizes[0]:.3g}, which {target.name.lower()} takes for 0"
    return ""
