"""Verify results at a point of the pipeline."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Analysis


@passes.register(tags=("check",))
class Verify(Analysis):
    """Run the model at this point, and compare its results with those of the original.

    Rewrites: nothing; the verification of the run compares here, even if it otherwise checks at the end only.
    Refuses:  results outside the tolerance of the original model's; passes if verification is off.
    Exactness: changes nothing.
    """

    def analyze(self, model: ir.Model) -> Any:
        """Return nothing: the evidence comes from the verification of the run."""
        return None
