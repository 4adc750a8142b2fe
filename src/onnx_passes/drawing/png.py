"""Drawings as PNG, by the renderer ``resvg``."""

from __future__ import annotations

import importlib
from typing import Any

from onnx_passes.core.errors import UsageError

_LARGEST = 16_000
"""Maximum number of pixels per side that viewers support."""


def png_bytes(svg: str, scale: float, size: tuple[int, int]) -> bytes:
    """Render SVG, with fewer pixels if it would exceed the limits of viewers."""
    try:
        renderer: Any = importlib.import_module("resvg_py")
    except ImportError:
        raise UsageError(
            "PNG needs the package resvg-py",
            hint="pip install 'onnx-passes[draw]', or save as .svg",
        ) from None
    factor = min(scale, _LARGEST / max(*size, 1))
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=factor))
