"""The origin of a model, the format of its file, and the repairs on import."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

    import onnx_ir as ir

FORMATS = {
    ".onnx": "binary",
    ".onnxtxt": "text",
    ".txt": "text",
    ".json": "json",
    ".textproto": "textproto",
    ".pbtxt": "textproto",
}
"""Formats by suffix; the default is binary."""
_KEY = "onnx_passes.origin"


@dataclasses.dataclass(frozen=True)
class Origin:
    """The source of a model: its file, if any, its storage, and the repairs on import."""

    path: Path | None = None
    format: str = "binary"
    external: bool = False
    repairs: tuple[str, ...] = ()


def origin(model: ir.Model) -> Origin | None:
    """Return the origin of ``model``; ``None`` if it was built in memory or is a clone."""
    return cast("MutableMapping[str, Origin]", model.meta).get(_KEY)


def title_of(model: ir.Model) -> str:
    """Return the title of a model: its file name, or its graph name."""
    source = origin(model)
    return source.path.name if source is not None and source.path is not None else model.graph.name or "model"


def set_origin(model: ir.Model, source: Origin) -> None:
    """Store the origin of ``model``; never serialised."""
    model.meta[_KEY] = source
