"""Take a quantized network to FINN: the one-word pipeline."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline.semantics import QuantizedPipeline
from onnx_passes.passes.streamline.streamline import Streamline

_BY_CHANNEL = "infer-thresholds{by-channel=true}"
"""FINN stores thresholds for each channel: one for every element would not fit."""


@passes.verify.tolerance
@passes.register(tags=("export", "quantized"))
class Finn(QuantizedPipeline):
    """Streamline a quantized network, and write it in the form that FINN builds hardware from.

    Rewrites: what ``streamline`` and ``export-finn`` do, with thresholds of channels, not of elements. What comes out
              is for FINN's step ``step_convert_to_hw``: no streamlining is left to do there. Remarks name what becomes
              no hardware, and why.
    Refuses:  what its members refuse.
    Exactness: tolerance, for ``streamline``, with either ``semantics``; what follows is equal.
    """

    passes = (
        *(_BY_CHANNEL if name == "infer-thresholds" else name for name in Streamline.passes),
        "export-finn",
    )
