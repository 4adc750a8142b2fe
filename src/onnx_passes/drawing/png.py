"""Pictures as PNG, by the renderer ``resvg``."""

from __future__ import annotations

import importlib
from typing import Any

from onnx_passes.core.errors import UsageError

_LARGEST = 16_000
"""Pixels to a side beyond which viewers give up."""


def png_bytes(svg: str, scale: float, size: tuple[int, int]) -> bytes:
    """Render SVG; what would be larger than viewers take has fewer pixels."""
    try:
        renderer: Any = importlib.import_module("resvg_py")
    except ImportError:
        raise UsageError(
            "PNG needs the package resvg-py",
            hint="pip install 'onnx-passes[draw]', or save as .svg, which needs nothing",
        ) from None
    factor = min(scale, _LARGEST / max(*size, 1))
    return bytes(renderer.svg_to_bytes(svg_string=svg, zoom=factor))
