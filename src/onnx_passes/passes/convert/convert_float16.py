"""Convert a model to half precision."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.convert.float_types import Narrow


@passes.verify.tolerance(atol=2**-10, rtol=2**-7, unit=2**-10)
@passes.register(tags=("convert", "types"))
class ConvertFloat16(Narrow):
    """Convert floats to half precision, in subgraphs too, with as few Casts as there can be.

    Rewrites: ``Relu(x: float)`` → ``Relu(x: float16)``; weights are rounded, and where a node stays float, a Cast
              stands between. Inputs and outputs of the model stay float unless ``keep-io=false``.
    Refuses:  nodes whose constants or measured values are beyond 65504, or a number so small that it would be 0; those
              that compute with positions or sizes; scales of quantizers, coordinates of Resize; operators that take no
              float16, that are not known, or that are blocked: they stay float, and each says why.
    Exactness: within what half precision resolves and what errors of its last bit do to the original.
    """

    target = ir.DataType.FLOAT16
