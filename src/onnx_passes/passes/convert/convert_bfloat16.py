"""Convert a model to bfloat16."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.convert.float_types import Narrow


@passes.verify.tolerance(atol=2**-7, rtol=2**-4, unit=2**-7)
@passes.register(tags=("convert", "types"))
class ConvertBfloat16(Narrow):
    """Convert floats to bfloat16, including subgraphs, with as few Casts as possible.

    Rewrites: ``Relu(x: float)`` → ``Relu(x: bfloat16)``; weights are rounded, and Casts are inserted next to nodes that
              stay float. Inputs and outputs of the model stay float unless ``keep-io=false``.
    Refuses:  nodes that compute positions or sizes; scales of quantizers; coordinates of Resize; operators that do not
              accept bfloat16 in the opset of the model, unknown operators and blocked ones: they stay float, each with
              a reason.
    Exactness: within the resolution of bfloat16, and the effect of its rounding errors on the original.
    """

    target = ir.DataType.BFLOAT16
