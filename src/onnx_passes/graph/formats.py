"""Formats of model files by their suffix."""

from __future__ import annotations

FORMATS = {
    ".onnx": "binary",
    ".onnxtxt": "text",
    ".txt": "text",
    ".json": "json",
    ".textproto": "textproto",
    ".pbtxt": "textproto",
}
"""Formats by suffix; the default is binary."""
