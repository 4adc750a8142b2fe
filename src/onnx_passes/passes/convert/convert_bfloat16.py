"""Convert a model to the short type that has the range of single precision."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.convert.float_types import Narrow


@passes.verify.tolerance(atol=2**-7, rtol=2**-4, unit=2**-7)
@passes.register(tags=("convert", "types"))
class ConvertBfloat16(Narrow):
    """Convert floats to bfloat16, in subgraphs too, with as few Casts as there can be.

    Rewrites: ``Relu(x: float)`` → ``Relu(x: bfloat16)``; weights are rounded, and where a node stays float, a Cast
              stands between. Inputs and outputs of the model stay float unless ``keep-io=false``.
    Refuses:  nodes that compute with positions or sizes; scales of quantizers, coordinates of Resize; operators that
              take no bfloat16 in the opset of the model, that are not known, or that are blocked: they stay float, and
              each says why.
    Exactness: within what bfloat16 resolves and what errors of its last bit do to the original.
    """

    target = ir.DataType.BFLOAT16
