"""Streamline a quantized network: the one-word pipeline."""

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
"""What brings a quantized network, whoever wrote it, to one form: float operators between quantizers."""


@passes.verify.tolerance
@passes.register(tags=("streamline", "quantized"))
class Streamline(QuantizedPipeline):
    """Streamline a quantized network to integers: integer weights, integer thresholds, one scale and bias at the end.

    Rewrites: quantizers lose their scales (``extract-quant-scale-zeropoint``), scales and biases come together behind
              integer operators (``aggregate-scales``), and what lies between an accumulator and the next quantizer
              becomes thresholds (``infer-thresholds``); data types are annotated, and ``check-streamlined`` says
              what part of the network is in integers and what stands in the way.
    Refuses:  what its members refuse. Parameters that are inputs with a default become constants.
    Exactness: tolerance: levels are those that the network means in exact arithmetic, also where floats round to the
              other side of a tie; notes say where floats still round before a quantizer. With ``semantics=float``
              thresholds are those of the float computation, whose scales are merged.
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
