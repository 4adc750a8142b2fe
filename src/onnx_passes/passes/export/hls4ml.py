"""Take a quantized network to hls4ml: the one-word pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline.semantics import QuantizedPipeline
from onnx_passes.passes.streamline.streamline import CANONICAL


@passes.verify.tolerance
@passes.register(tags=("export", "quantized"))
class Hls4ml(QuantizedPipeline):
    """Prepare a quantized network for hls4ml: fixed-point layers with channels last, in its dialect of QONNX.

    Rewrites: scales and zero points leave the quantizers and come together behind integer sums, as in streamline
              (``extract-quant-scale-zeropoint, aggregate-scales``); signs get thresholds of integers; images get their
              channels last (``convert-channels-last``, inputs too); every layer gets fixed-point weights and one scale
              and shift (``convert-to-fixed-point``); names and constants are as hls4ml wants them (``export-hls4ml``).
    Refuses:  what its members refuse; what hls4ml will not take is noted, with the reason.
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
