"""Lower Gelu to arithmetic and an error function or a hyperbolic tangent."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.operator import LowerOperator


@passes.verify.tolerance
@passes.register("lower")
class LowerGelu(LowerOperator):
    """Put arithmetic and an error function, or a hyperbolic tangent, in the place of Gelu.

    Rewrites: ``Gelu(x)`` → ``0.5 * x * (1 + Erf(x / √2))``;
              ``Gelu<approximate="tanh">(x)`` → ``0.5 * x * (1 + Tanh(√(2/π) * (x + 0.044715 * x³)))``.
    Refuses:  opsets below 20, which have no Gelu; an input of unknown type.
    Exactness: rounding.
    """

    operator = "Gelu"
    fast_math = ("nsz",)

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the form that the node asks for."""
        if node.attributes.get_string("approximate", "none") == "tanh":
            cube = op.Mul(op.Mul(x, x), x)
            bent = op.Tanh(op.Mul(op.Add(x, op.Mul(cube, 0.044715)), math.sqrt(2 / math.pi)))
        else:
            bent = op.Erf(op.Mul(x, math.sqrt(0.5)))
        return op.Mul(op.Mul(x, 0.5), op.Add(bent, 1.0))
