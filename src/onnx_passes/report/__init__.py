"""What people see of a run: tables, differences, progress, pages."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_passes.graph.load import Source


class _Room(ModuleType):
    """The room is called as the function: importing it puts it in the place of ``onnx_passes.report``."""

    def __call__(self, before: Source, after: Source, target: str | Path, *, title: str = "") -> Path:
        """Write a page that shows how two models differ, whatever their nodes are called; as .json, its data."""
        from onnx_passes.report.compare import report

        return report(before, after, target, title=title)


sys.modules[__name__].__class__ = _Room
