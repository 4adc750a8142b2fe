"""Notebooks learn to show models, graphs and nodes, which are classes of onnx_ir and know nothing of pages."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import onnx_ir as ir

_FOREIGN = (ir.Model, ir.Graph, ir.Function, ir.Node)


def install() -> None:
    """Register pages with the notebook that this process belongs to, if it is one."""
    _install_in_ipython()
    _install_in_marimo()


def _install_in_ipython() -> None:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "display_formatter", None) is not None:
        for cls in _FOREIGN:
            shell.display_formatter.mimebundle_formatter.for_type(cls, _bundle)


def _install_in_marimo() -> None:
    if "marimo" not in sys.modules:
        return
    try:
        formatter: Any = importlib.import_module("marimo._output.formatting").formatter
    except (ImportError, AttributeError):
        # Marimo offers no public way; where this one is gone, it shows models as text.
        return
    for cls in _FOREIGN:
        formatter(cls)(_html)


def _bundle(thing: object, include: Any = None, exclude: Any = None) -> dict[str, str]:
    return importlib.import_module("onnx_passes.session.display").mimebundle(thing)


def _html(thing: object) -> tuple[str, str]:
    return "text/html", _bundle(thing)["text/html"]
