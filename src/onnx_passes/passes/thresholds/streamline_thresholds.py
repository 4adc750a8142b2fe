"""The pipeline that converts quantizers to thresholds."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("thresholds", "streamline", "quantized"))
class StreamlineThresholds(ComposePass):
    """Fuse quantizers and the elementwise operators around them into thresholds.

    Rewrites: quantizers lose their scales (``extract-quant-scale-zeropoint``), become thresholds with the operators
              before them (``infer-thresholds``), thresholds absorb the operators around them (``fuse-thresholds``), are
              sorted (``sort-thresholds``), and integers if their input is (``round-thresholds``).
    Refuses:  the cases that its members refuse.
    Exactness: equal on every finite input, except for the sign of zeros.
    """

    passes = (
        "extract-quant-scale-zeropoint",
        "shape-inference",
        "infer-thresholds",
        "fuse-thresholds",
        "sort-thresholds",
        "round-thresholds",
    )
