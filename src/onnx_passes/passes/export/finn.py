"""The pipeline that exports a quantized network to FINN."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.passes.streamline.semantics import QuantizedPipeline
from onnx_passes.passes.streamline.streamline import Streamline

_BY_CHANNEL = "infer-thresholds{by-channel=true}"
"""FINN stores thresholds per channel: one for every element would not fit."""


@passes.verify.tolerance
@passes.register(tags=("export", "quantized"))
class Finn(QuantizedPipeline):
    """Streamline a quantized network, and convert it to the form from which FINN builds hardware.

    Rewrites: those of ``streamline`` and ``export-finn``, with thresholds per channel, not per element. The result is
              the input of FINN's step ``step_convert_to_hw``: no streamlining is left to do there. Remarks name the
              nodes that stay in software, with the reasons.
    Refuses:  the cases that its members refuse.
    Exactness: tolerance, because of ``streamline``, with either ``semantics``; later passes are exact.
    """

    passes = (
        *(_BY_CHANNEL if name == "infer-thresholds" else name for name in Streamline.passes),
        "export-finn",
    )
