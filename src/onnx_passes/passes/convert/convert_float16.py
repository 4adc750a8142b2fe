"""Convert a model to half precision."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.convert.float_types import Narrow


@passes.verify.tolerance(atol=2**-10, rtol=2**-7, unit=2**-10)
@passes.register(tags=("convert", "types"))
class ConvertFloat16(Narrow):
    """Convert floats to half precision, including subgraphs, with as few Casts as possible.

    Rewrites: ``Relu(x: float)`` → ``Relu(x: float16)``; weights are rounded, and Casts are inserted next to nodes that
              stay float. Inputs and outputs of the model stay float unless ``keep-io=false``.
    Refuses:  nodes with constants or measured values beyond 65504, or with a scalar that would underflow to 0; nodes
              that compute positions or sizes; scales of quantizers; coordinates of Resize; operators that do not accept
              float16, unknown operators and blocked ones: they stay float, each with a reason.
    Exactness: within the resolution of half precision, and the effect of its rounding errors on the original.
    """

    target = ir.DataType.FLOAT16
