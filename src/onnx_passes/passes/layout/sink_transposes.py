"""Sink transpositions of quantized networks towards the outputs."""

from __future__ import annotations

from onnx_passes import passes
from onnx_passes.core.compose import ComposePass


@passes.verify.equality
@passes.register(tags=("layout",))
class SinkTransposes(ComposePass):
    """Sink transposes below elementwise operators and quantizers until they cancel.

    Rewrites: ``move-transpose-past-quantizer, move-transpose-down, eliminate-transpose``, until nothing changes.
    Refuses:  the cases that its members refuse.
    Exactness: bit-exact.
    """

    passes = ("move-transpose-past-quantizer", "move-transpose-down", "eliminate-transpose")
    exhaustive = True
