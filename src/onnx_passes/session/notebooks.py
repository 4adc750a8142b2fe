"""Register notebook representations for models, graphs and nodes, whose classes belong to onnx_ir."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import onnx_ir as ir

from onnx_passes.core.display import ipython

_QUOTED = re.compile(r"""\.(?:apply|matches|preview|why_not)\(\s*["'](?:[^"']*[\s,(])?(?P<word>[\w-]*)$""")
"""Pipeline text that is being written, up to the pass that is to be completed."""
_FOREIGN = (ir.Model, ir.Graph, ir.Function, ir.Node)


def install() -> None:
    """Register pages with the notebook that this process belongs to, if it is one."""
    _install_in_ipython()
    _install_in_marimo()


def _install_in_ipython() -> None:
    shell = ipython()
    if getattr(shell, "display_formatter", None) is not None:
        for cls in _FOREIGN:
            shell.display_formatter.mimebundle_formatter.for_type(cls, _bundle)
    completer: Any = getattr(shell, "Completer", None)
    known = [getattr(each, "__self__", None) for each in getattr(completer, "custom_matchers", ())]
    if completer is not None and not any(isinstance(each, _PassNames) for each in known):
        completer.custom_matchers.append(_PassNames(completer).complete)


class _PassNames:
    """Completes names of passes in pipeline text, as IPython asks: with the word that it is about to replace."""

    def __init__(self, completer: Any) -> None:
        self.completer = completer

    def complete(self, word: str) -> list[str]:
        """Return the completions of a word."""
        found = _QUOTED.search(self.completer.text_until_cursor)
        if found is None:
            return []
        from onnx_passes.core.registry import REGISTRY

        start = len(found["word"]) - len(word)
        return [name[start:] for name in REGISTRY.names() if name.startswith(found["word"])]


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
