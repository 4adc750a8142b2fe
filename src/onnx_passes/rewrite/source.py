"""Where the functions of a rule are written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def source_of(function: Callable[..., Any]) -> str:
    """Name file and line of a function."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else "built in"
