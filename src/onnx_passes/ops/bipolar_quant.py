"""BipolarQuant: quantize to one bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.definition import Input, define
from onnx_passes.ops.portable import greater_or_equal
from onnx_passes.ops.quantizer import Quantizer, Working, is_everywhere, parameter
from onnx_passes.ops.quantizing import BIPOLAR_LEVELS, IntegerGrid, IntegerLevels
from onnx_passes.ops.rounding import Edge

if TYPE_CHECKING:
    from onnx_passes.graph.builder import Builder


@define
class BipolarQuant(Quantizer):
    """Quantize to ``+scale`` where x is not negative, to ``-scale`` elsewhere.

    Zero of either sign gives ``+scale``, NaN gives ``-scale``.
    """

    name = "BipolarQuant"
    inputs = (Input("x", "the values"), Input("scale", "the size of the result, for the tensor or for each channel"))

    def grid(self, node: ir.Node) -> IntegerGrid | None:
        """Return the two levels."""
        scale = parameter(node, 1)
        return None if scale is None else IntegerGrid(-1, 1, scale.astype(np.float64), np.array(0.0), step=2)

    def levels(self, node: ir.Node) -> IntegerLevels | str:
        """Return -1 and 1."""
        if parameter(node, 1) is None:
            return "a parameter is computed"
        return BIPOLAR_LEVELS if is_everywhere(node, 1, 1) else "its scale is not 1"

    def edge(self, node: ir.Node, level: int) -> Edge | None:
        """Return that 1 begins at zero."""
        return Edge(Fraction(0), closed=True)

    def bits(self, node: ir.Node) -> float | None:
        """Return that it is one bit."""
        return 1.0

    def signed(self, node: ir.Node) -> bool | None:
        """Return that one level is negative."""
        return True

    def quantize(self, inputs: Sequence[np.ndarray], attributes: Mapping[str, Any]) -> np.ndarray:
        """Compute the result."""
        x, scale = inputs
        return np.where(x >= 0, scale, -scale)

    def build(self, op: Builder, call: Working) -> ir.Value:
        """Build the result of standard operators."""
        sign = op.Where(greater_or_equal(op, call.x, call.number(0)), call.number(1), call.number(-1))
        return op.Mul(sign, call.input(1))
