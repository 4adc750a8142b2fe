"""Names of version 0.4, and what stands for them now."""

from __future__ import annotations

from collections.abc import Collection, Mapping

_CONSTANTS = "remove-initializers-from-inputs, fold-constants"
WRITTEN: Mapping[str, str] = {
    "inline-qonnx": f"{_CONSTANTS}, inline-qonnx, fold-constants",
    "lower-conv": "lower-conv{im2col=true}",
    "lower-pooling": "lower-pooling{im2col=true}",
}
"""Passes of 0.4 that left another form: with the options, and the passes around them, that give it.

Its inlining computed constants; its lowering made ``Im2Col`` of images with channels last.
"""
_MOVING_TRANSPOSES = ("streamline-thresholds", "streamline")


def written(name: str, text: str, operators: Collection[str]) -> str:
    """Write a pass as 0.4 meant it, for a model of certain operators; options that are given say what is meant.

    Its streamlining also moved transpositions.
    """
    if name in _MOVING_TRANSPOSES and "Transpose" in operators:
        return f"absorb-layouts, {text}"
    return WRITTEN.get(name, text) if text == name else text
