"""Lower RMSNormalization to a mean, a root and a division."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.lower.norms import LowerNorm
from onnx_passes.rewrite.hints import hints


@passes.verify.tolerance
@passes.register("lower")
class LowerRmsnorm(LowerNorm):
    """Lower RMSNormalization to a mean, a root and a division.

    Rewrites: ``RMSNormalization(x, s)`` → ``x / Sqrt(ReduceMean(x * x) + ε) * s``, in single precision.
    Refuses:  opsets below 23, which have no RMSNormalization; other types than single and half precision; an input of
              unknown rank.
    Exactness: rounding.
    """

    operator = "RMSNormalization"
    fuzz_hints = hints(
        *(
            f"""<ir_version: 11, opset_import: ["" : 23]> g (float[{shape},3] x) => (float[{shape},3] y)
                <float[3] s = {{1,-2,0.5}}> {{ y = RMSNormalization <axis = {axis}, epsilon = {epsilon}> (x, s) }}"""
            for epsilon in (0.00001, 0.1)
            for shape in ("2", "N", "1,2", "N,2")
            for axis in (-1, len(shape.split(",")))
        )
    )
