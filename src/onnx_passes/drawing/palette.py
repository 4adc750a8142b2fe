"""The colours of drawings, for all output formats."""

from __future__ import annotations

from typing import get_args

from onnx_passes.drawing.scene import Role
from onnx_passes.ops.describe import Family

COLOURS: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#16181d"),
    "text": ("#1d2330", "#e4e7ee"),
    "muted": ("#5b6475", "#a3abbb"),
    "line": ("#8b94a5", "#6f788a"),
    "card": ("#f7f8fa", "#22262e"),
    "border": ("#c3c9d4", "#444b59"),
    "inside": ("#ffffff", "#1b1e25"),
    "added": ("#1a7f37", "#3fb950"),
    "added-fill": ("#e6f6ea", "#12301c"),
    "removed": ("#cf222e", "#ff7b72"),
    "removed-fill": ("#fdecec", "#3a1a1c"),
    "changed": ("#9a6700", "#e3b341"),
    "changed-fill": ("#fff6dc", "#33270b"),
    "found": ("#0969da", "#58a6ff"),
    "found-fill": ("#e4f0fd", "#0f2742"),
    "product": ("#2f5d8c", "#3a6ea5"),
    "quantizer": ("#6d4a9c", "#7d5ab0"),
    "activation": ("#8c4563", "#9c5273"),
    "arithmetic": ("#4d5a6e", "#5b6980"),
    "normalization": ("#1f6e86", "#2a7f99"),
    "movement": ("#2f6f6a", "#36807a"),
    "reduction": ("#55569b", "#6465b0"),
    "control": ("#3b4048", "#4b525d"),
    "other": ("#5f6672", "#6a7280"),
}
"""Colours in light and in dark; white text on the heads of nodes has a contrast of 4.5 or more in both."""
FAMILIES: tuple[Family, ...] = get_args(Family)


def line_colour(role: Role) -> str:
    """Return the line colour of a role, on light pages."""
    return COLOURS[role or "line"][0]


def fill_colour(role: Role) -> str:
    """Return the fill colour of a role on light pages."""
    return COLOURS[f"{role}-fill" if role else "card"][0]
