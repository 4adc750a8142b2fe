"""A quantizer to -1, 0 and 1, as a user would bring it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import operators


@operators.define
class Ternary(operators.Quantizer):
    """Quantize to 1 above the threshold, to -1 below its opposite, and to 0 between; NaN gives 0."""

    name = "Ternary"
    domains = ("plugin.ternary",)
    inputs = (operators.Input("x", "the values"), operators.Input("threshold", "how far zero reaches; positive"))

    def grid(self, node: ir.Node) -> operators.IntegerGrid:
        return operators.IntegerGrid(-1, 1, np.array(1.0), np.array(0.0))

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        x, threshold = inputs
        return (x > threshold).astype(x.dtype) - (x < -threshold).astype(x.dtype)

    def build(self, op: Any, call: operators.Working) -> ir.Value:
        threshold = call.input(1)
        above, below = op.Greater(call.x, threshold), op.Less(call.x, op.Neg(threshold))
        return op.Sub(op.Cast(above, to=call.dtype), op.Cast(below, to=call.dtype))


@operators.work.of(Ternary)
def work(node: ir.Node) -> operators.Work:
    return operators.Work(0, 3 * int(np.prod(node.outputs[0].shape.numpy())))


@operators.fuzz.of(Ternary)
def recipe(site: Any) -> None:
    site.input(0, site.want)
    site.input(1, (), values=np.array(0.5, np.float32))
