"""Bring a network to thresholds: the one-word pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("thresholds", "streamline", "quantized"))
class StreamlineThresholds(ComposePass):
    """Fuse quantizers and the elementwise operators around them into thresholds.

    Rewrites: quantizers lose their scales (``extract-quant-scale-zeropoint``), become thresholds with what is before
              them (``infer-thresholds``), thresholds take up what is around them (``fuse-thresholds``), are in order
              (``sort-thresholds``) and integers where their input is (``round-thresholds``).
    Refuses:  what its members refuse.
    Exactness: equal on every finite input, but for the sign of zeros.
    """

    passes = (
        "extract-quant-scale-zeropoint",
        "shape-inference",
        "infer-thresholds",
        "fuse-thresholds",
        "sort-thresholds",
        "round-thresholds",
    )
