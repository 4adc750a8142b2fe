"""Lower LayerNormalization to means, a root and a division."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lower.along_axes import LowerNorm


@passes.verify.tolerance
@passes.register("lower")
class LowerLayernorm(LowerNorm):
    """Put means, a root and a division in the place of LayerNormalization.

    Rewrites: ``LayerNormalization(x, s, b)`` → ``d / Sqrt(ReduceMean(d * d) + ε) * s + b`` with
              ``d = x - ReduceMean(x)``, in single precision.
    Refuses:  opsets below 18; other types than single and half precision; an input of unknown rank; mean or deviation
              that are used.
    Exactness: rounding.
    """

    operator = "LayerNormalization"

    def body(self, op: Any, x: ir.Value, node: ir.Node) -> Any:
        """Build the definition."""
        return self.normalize(op, x, node, centred=True)
