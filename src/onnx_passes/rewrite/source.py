"""Source locations of the functions of a rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from onnx_passes.core.display import ipython


def source_of(function: Callable[..., Any]) -> str:
    """Name file and line of a function."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return f"{_file(code.co_filename)}:{code.co_firstlineno}" if code is not None else "built in"


def is_of_onnxscript(thing: object) -> bool:
    """Return whether something is a class of onnxscript, or an object of one; it is not imported to find out."""
    kind = cast("type", thing if isinstance(thing, type) else type(thing))
    return any(base.__module__.partition(".")[0] == "onnxscript" for base in kind.__mro__)


def _file(name: str) -> str:
    """Name a file; the cells of a notebook, which have made-up names, as the notebook counts them."""
    shell = ipython()
    cell = None if shell is None else shell.compile.format_code_name(name)
    return name if cell is None else cell[1]
