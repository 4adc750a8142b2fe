"""One form for quantized networks, wherever they come from."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.tolerance(atol=1.0)
@passes.register(tags=("quant",))
class ImportQuantized(ComposePass):
    """Canonicalize networks quantized by ONNX Runtime, Brevitas and others: float operators between Quants.

    Rewrites: ``import-integer, convert-rounding, convert-qoperator, convert-dynamic-quantization,
              convert-integer-product, move-dequantize-up, convert-qcdq``.
    Refuses:  what its members refuse; what stays as it is keeps its meaning.
    Exactness: that of its members: bit-exact for QuantizeLinear and DequantizeLinear, one step for QLinear operators.
    """

    passes = (
        "import-integer",
        "convert-rounding",
        "convert-qoperator",
        "convert-dynamic-quantization",
        "convert-integer-product",
        "move-dequantize-up",
        "convert-qcdq",
    )
