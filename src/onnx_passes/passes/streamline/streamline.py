"""Streamline a quantized network: the one-word pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass

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
class Streamline(ComposePass):
    """Streamline a quantized network to integers: integer weights, integer thresholds, one scale and bias at the end.

    Rewrites: quantizers lose their scales (``extract-quant-scale-zeropoint``), scales and biases come together behind
              integer operators (``aggregate-scales``), and what lies between an accumulator and the next quantizer
              becomes thresholds (``infer-thresholds``); data types are annotated, and ``check-streamlined`` says
              what part of the network is in integers and what stands in the way.
    Refuses:  what its members refuse. Parameters that are inputs with a default become constants.
    Exactness: tolerance: scales move, which changes rounding; from then on every step is equal.
    """

    passes = (
        *CANONICAL,
        "eliminate-zero-state",
        "remove-unused",
        "shape-inference",
        "streamline-floats",
        "recover-weight-scales",
        "extract-quant-scale-zeropoint",
        "verify",
        "aggregate-scales",
        "verify",
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
