"""ONNX graph passes you can trust: small passes on ONNX IR, verified after every step."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_passes import passes as passes
    from onnx_passes.api import Result as Result
    from onnx_passes.api import apply as apply
    from onnx_passes.api import run_model as run_model
    from onnx_passes.core.base import Analysis as Analysis
    from onnx_passes.core.base import Annotation as Annotation
    from onnx_passes.core.base import Pass as Pass
    from onnx_passes.core.base import PassResult as PassResult
    from onnx_passes.core.base import Transformation as Transformation
    from onnx_passes.core.compose import ComposePass as ComposePass
    from onnx_passes.core.options import Size as Size
    from onnx_passes.core.options import option as option
    from onnx_passes.graph.constants import constant as constant
    from onnx_passes.graph.load import load as load
    from onnx_passes.graph.save import save as save
    from onnx_passes.rewrite.passes import RewriteRulePass as RewriteRulePass
    from onnx_passes.rewrite.passes import RewriteRuleSetPass as RewriteRuleSetPass
    from onnx_passes.rewrite.refusal import no as no
    from onnx_passes.rewrite.refusal import yes as yes
    from onnx_passes.rewrite.rule import Rule as Rule
    from onnx_passes.verify.resources import limited as limited

__version__ = "0.5.0.dev0"

_HOMES = {
    "Analysis": "core.base",
    "Annotation": "core.base",
    "ComposePass": "core.compose",
    "Pass": "core.base",
    "PassResult": "core.base",
    "Result": "api",
    "RewriteRulePass": "rewrite.passes",
    "RewriteRuleSetPass": "rewrite.passes",
    "Rule": "rewrite.rule",
    "Size": "core.options",
    "Transformation": "core.base",
    "apply": "api",
    "constant": "graph.constants",
    "limited": "verify.resources",
    "load": "graph.load",
    "no": "rewrite.refusal",
    "option": "core.options",
    "run_model": "api",
    "save": "graph.save",
    "yes": "rewrite.refusal",
}

__all__ = [*_HOMES, "passes"]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: start-up must not pay for onnx_ir."""
    if name == "passes":
        return importlib.import_module("onnx_passes.passes")
    if name in _HOMES:
        return getattr(importlib.import_module(f"onnx_passes.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'onnx_passes' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
