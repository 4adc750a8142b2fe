"""What users register in a test is forgotten after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from onnx_passes.core.registry import REGISTRY

_FOLDER_OF_TESTS = "pytest-"


@contextmanager
def forgetting() -> Iterator[None]:
    """Forget the passes and modules of users that come in meanwhile."""
    modules, known = set(sys.modules), set(REGISTRY._entries)
    try:
        yield
    finally:
        for key, entry in list(REGISTRY._entries.items()):
            if key not in known and not entry.module.startswith("onnx_passes."):
                del REGISTRY._entries[key]
                REGISTRY._classes.pop(entry.name, None)
        for name in set(sys.modules) - modules:
            if _FOLDER_OF_TESTS in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
