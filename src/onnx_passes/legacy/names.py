"""Names of version 0.4, and what stands for them now."""

from __future__ import annotations

WRITTEN = {
    "inline-qonnx": "remove-initializers-from-inputs, fold-constants, inline-qonnx, fold-constants",
    "lower-conv": "lower-conv{im2col=true}",
    "lower-pooling": "lower-pooling{im2col=true}",
    "streamline-thresholds": "absorb-layouts, streamline-thresholds",
    "streamline": "absorb-layouts, streamline",
}
"""Passes that 0.4 made of the same name, but with results in another form: written with the options that give it."""
