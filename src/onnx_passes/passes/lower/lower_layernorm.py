"""Lower LayerNormalization to means, a root and a division."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.lower.norms import LowerNorm


@passes.verify.tolerance
@passes.register("lower")
class LowerLayernorm(LowerNorm):
    """Lower LayerNormalization to means, a root and a division.

    Rewrites: ``LayerNormalization(x, s, b)`` → ``d / Sqrt(ReduceMean(d * d) + ε) * s + b`` with
              ``d = x - ReduceMean(x)``, in single precision.
    Refuses:  opsets below 18; other types than single and half precision; an input of unknown rank; mean or deviation
              that are used.
    Exactness: rounding.
    """

    operator = "LayerNormalization"
    centred = True
