"""Tools for authors of passes: ``check_pass``, ``assert_same_graph``, the rule fuzzer, a pytest plug-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_passes.testing.assertions import assert_same_graph as assert_same_graph
    from onnx_passes.testing.assertions import check_pass as check_pass

__all__ = ["assert_same_graph", "check_pass"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a name on first use: the pytest plug-in must not pay for onnx_ir."""
    if name not in __all__:
        raise AttributeError(f"module 'onnx_passes.testing' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module("onnx_passes.testing.assertions"), name)
