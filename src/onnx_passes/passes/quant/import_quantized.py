"""Import quantized networks of any origin in one form."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.tolerance(atol=1.0)
@passes.register(tags=("quant",))
class ImportQuantized(ComposePass):
    """Canonicalize networks quantized by ONNX Runtime, Brevitas and others: float operators between Quants.

    Rewrites: ``import-integer, convert-rounding, convert-qoperator, convert-dynamic-quantization,
              convert-integer-product, move-dequantize-up, convert-qcdq``.
    Refuses:  the cases that its members refuse, which stay unchanged.
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
