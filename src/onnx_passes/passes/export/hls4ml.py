"""The pipeline that exports a quantized network to hls4ml."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline.semantics import QuantizedPipeline
from onnx_passes.passes.streamline.streamline import CANONICAL


@passes.verify.tolerance
@passes.register(tags=("export", "quantized"))
class Hls4ml(QuantizedPipeline):
    """Prepare a quantized network for hls4ml: fixed-point layers with channels last, in its dialect of QONNX.

    Rewrites: scales and zero points are factored out of quantizers and aggregated after integer sums, as in streamline
              (``extract-quant-scale-zeropoint, aggregate-scales``); signs get thresholds of integers; images become
              channels last (``convert-channels-last``, inputs too); every layer gets fixed-point weights and one scale
              and shift (``convert-to-fixed-point``); names and constants are adapted to hls4ml (``export-hls4ml``).
    Refuses:  the cases that its members refuse; operators that hls4ml lacks are noted, with the reason.
    Exactness: tolerance: scales move, which changes rounding. With ``semantics=float`` the thresholds of signs are
              those of the float computation.
    """

    passes = (
        *CANONICAL,
        "remove-unused",
        "shape-inference",
        "recover-weight-scales",
        "extract-quant-scale-zeropoint",
        "aggregate-scales",
        "fold-constants",
        "infer-thresholds{only-signs=true}",
        "convert-thresholds-to-quant",
        "together(eliminate)",
        "eliminate-common-subexpression",
        "cleanup",
        "shape-inference",
        "convert-channels-last{inputs=true}",
        "verify",
        "convert-to-fixed-point",
        "export-hls4ml",
    )
