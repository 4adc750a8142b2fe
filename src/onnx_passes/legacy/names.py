"""Names of version 0.4, and what stands for them now."""

from __future__ import annotations

WRITTEN = {
    "inline-qonnx": "remove-initializers-from-inputs, fold-constants, inline-qonnx",
}
"""Passes that 0.4 made of the same name, but with results in another form: written with the options that give it."""
