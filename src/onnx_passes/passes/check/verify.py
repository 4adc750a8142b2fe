"""Check the results where the pipeline says so."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis


@passes.register(tags=("check",))
class Verify(Analysis):
    """Run the model at this point, and compare its results with those of the original.

    Rewrites: nothing; the verification of the run does the work, also where it otherwise checks at the end only.
    Refuses:  results that are not within tolerance of the original model's; nothing if verification is off.
    Exactness: changes nothing.
    """

    def analyze(self, model: ir.Model) -> Any:
        """Find nothing itself: what the verification finds is the evidence of this step."""
        return None
