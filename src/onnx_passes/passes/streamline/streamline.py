"""The pipeline that streamlines a quantized network."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline.semantics import QuantizedPipeline

CANONICAL = (
    "eject-ops",
    "remove-initializers-from-inputs",
    "inline-functions",
    "lift-constants",
    "shape-inference",
    "import-qonnx",
    "convert-channels-first",
    "import-quantized",
    "shape-inference",
    "fold-constants",
    "fold-shapes",
    "fold-constants",
    "together(eliminate)",
    "eliminate-common-subexpression",
)
"""Canonicalizes quantized networks of any origin: float operators between quantizers."""


@passes.verify.tolerance
@passes.register(tags=("streamline", "quantized"))
class Streamline(QuantizedPipeline):
    """Streamline a quantized network to integers: integer weights, integer thresholds, one scale and bias at the end.

    Rewrites: quantizers lose their scales (``extract-quant-scale-zeropoint``), scales and biases are aggregated after
              integer operators (``aggregate-scales``), and operators between an accumulator and the next quantizer
              become thresholds (``infer-thresholds``); data types are annotated, and ``check-streamlined`` reports the
              share of the network in integers and the nodes that prevent more.
    Refuses:  the cases that its members refuse. Parameters that are inputs with a default become constants.
    Exactness:tolerance: levels are those of exact arithmetic, even if floats round to the other side of a tie; notes
              name floats that still round before a quantizer. With ``semantics=float`` thresholds are those of the
              float computation with merged scales.
    """

    passes = (
        *CANONICAL,
        "eliminate-zero-state",
        "remove-unused",
        "shape-inference",
        "streamline-floats",
        "settle-quantized-constants",
        "recover-weight-scales",
        "extract-quant-scale-zeropoint",
        "aggregate-scales",
        "fold-quantized-weights",
        "fold-constants",
        "infer-thresholds",
        "together(eliminate)",
        "eliminate-common-subexpression",
        "cleanup",
        "shape-inference",
        "minimize-accumulators",
        "check-streamlined",
    )
