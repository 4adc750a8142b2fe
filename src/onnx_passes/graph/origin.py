"""Where a model came from and what was repaired when it was read."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

    import onnx_ir as ir

_KEY = "onnx_passes.origin"


@dataclasses.dataclass(frozen=True)
class Origin:
    """The source of a model: its file if it has one, how it was stored, and the repairs made on import."""

    path: Path | None = None
    format: str = "binary"
    external: bool = False
    repairs: tuple[str, ...] = ()


def origin(model: ir.Model) -> Origin | None:
    """Return where ``model`` was loaded from; ``None`` if it was built in memory or is a clone."""
    return cast("MutableMapping[str, Origin]", model.meta).get(_KEY)


def title_of(model: ir.Model) -> str:
    """Return what a model is called: its file, or its graph."""
    source = origin(model)
    return source.path.name if source is not None and source.path is not None else model.graph.name or "model"


def set_origin(model: ir.Model, source: Origin) -> None:
    """Remember where ``model`` was loaded from; never serialised."""
    model.meta[_KEY] = source
