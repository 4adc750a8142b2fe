"""ONNX graph passes you can trust: small passes on ONNX IR, verified after every step."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_passes import operators as operators
    from onnx_passes import passes as passes
    from onnx_passes.api import Result as Result
    from onnx_passes.api import apply as apply
    from onnx_passes.api import run_model as run_model
    from onnx_passes.api import simplify as simplify
    from onnx_passes.backend.integer_network import integer_network as integer_network
    from onnx_passes.backend.network import IntegerNetwork as IntegerNetwork
    from onnx_passes.check.measuring import Measuring as Measuring
    from onnx_passes.check.verification import Verification as Verification
    from onnx_passes.core.base import Analysis as Analysis
    from onnx_passes.core.base import Annotation as Annotation
    from onnx_passes.core.base import Pass as Pass
    from onnx_passes.core.base import PassResult as PassResult
    from onnx_passes.core.base import Transformation as Transformation
    from onnx_passes.core.compose import ComposePass as ComposePass
    from onnx_passes.core.errors import OnnxPassesError as OnnxPassesError
    from onnx_passes.core.errors import PassFailedError as PassFailedError
    from onnx_passes.core.errors import UsageError as UsageError
    from onnx_passes.core.instruments import Instrument as Instrument
    from onnx_passes.core.options import Size as Size
    from onnx_passes.core.options import option as option
    from onnx_passes.debug.bisect import bisect as bisect
    from onnx_passes.debug.reduce.task import reduce as reduce
    from onnx_passes.debug.why_not import why_not as why_not
    from onnx_passes.drawing.draw import draw as draw
    from onnx_passes.drawing.drawing import Drawing as Drawing
    from onnx_passes.graph.builder import Builder as Builder
    from onnx_passes.graph.constants import constant as constant
    from onnx_passes.graph.diff import diff as diff
    from onnx_passes.graph.load import load as load
    from onnx_passes.graph.networkx import to_networkx as to_networkx
    from onnx_passes.graph.save import save as save
    from onnx_passes.history.why import why as why
    from onnx_passes.passes.analyse.inspection import inspect as inspect
    from onnx_passes.passes.analyse.ranges import ranges as ranges
    from onnx_passes.report.compare import report_differences as report_differences
    from onnx_passes.rewrite.editor import Editor as Editor
    from onnx_passes.rewrite.laws import LawPass as LawPass
    from onnx_passes.rewrite.laws import Vocabulary as Vocabulary
    from onnx_passes.rewrite.laws import When as When
    from onnx_passes.rewrite.match import Match as Match
    from onnx_passes.rewrite.passes import EditorPass as EditorPass
    from onnx_passes.rewrite.passes import RewriteRulePass as RewriteRulePass
    from onnx_passes.rewrite.passes import RewriteRuleSetPass as RewriteRuleSetPass
    from onnx_passes.rewrite.patterns import Op as Op
    from onnx_passes.rewrite.patterns import Var as Var
    from onnx_passes.rewrite.refusal import Answer as Answer
    from onnx_passes.rewrite.refusal import no as no
    from onnx_passes.rewrite.refusal import yes as yes
    from onnx_passes.rewrite.rule import Rule as Rule
    from onnx_passes.session.session import Session as Session
    from onnx_passes.session.session import open as open  # noqa: A004
    from onnx_passes.testing.fuzz import fuzz as fuzz
    from onnx_passes.verify.failure import PostconditionError as PostconditionError
    from onnx_passes.verify.failure import VerificationError as VerificationError
    from onnx_passes.verify.run.resources import limited as limited

__version__ = "0.5.0.dev0"

_HOMES = {
    "Analysis": "core.base",
    "Annotation": "core.base",
    "Answer": "rewrite.refusal",
    "Builder": "graph.builder",
    "ComposePass": "core.compose",
    "Drawing": "drawing.drawing",
    "Editor": "rewrite.editor",
    "EditorPass": "rewrite.passes",
    "IntegerNetwork": "backend.network",
    "Instrument": "core.instruments",
    "LawPass": "rewrite.laws",
    "Match": "rewrite.match",
    "Measuring": "check.measuring",
    "OnnxPassesError": "core.errors",
    "Op": "rewrite.patterns",
    "Pass": "core.base",
    "PassFailedError": "core.errors",
    "PassResult": "core.base",
    "PostconditionError": "verify.failure",
    "Result": "api",
    "RewriteRulePass": "rewrite.passes",
    "RewriteRuleSetPass": "rewrite.passes",
    "Rule": "rewrite.rule",
    "Session": "session.session",
    "Size": "core.options",
    "Transformation": "core.base",
    "UsageError": "core.errors",
    "Var": "rewrite.patterns",
    "Verification": "check.verification",
    "VerificationError": "verify.failure",
    "Vocabulary": "rewrite.laws",
    "When": "rewrite.laws",
    "apply": "api",
    "bisect": "debug.bisect",
    "constant": "graph.constants",
    "diff": "graph.diff",
    "draw": "drawing.draw",
    "fuzz": "testing.fuzz",
    "inspect": "passes.analyse.inspection",
    "integer_network": "backend.integer_network",
    "limited": "verify.run.resources",
    "load": "graph.load",
    "no": "rewrite.refusal",
    "open": "session.session",
    "option": "core.options",
    "ranges": "passes.analyse.ranges",
    "reduce": "debug.reduce.task",
    "report_differences": "report.compare",
    "run_model": "api",
    "save": "graph.save",
    "simplify": "api",
    "to_networkx": "graph.networkx",
    "why": "history.why",
    "why_not": "debug.why_not",
    "yes": "rewrite.refusal",
}

__all__ = [*_HOMES, "operators", "passes"]  # noqa: PLE0604 # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Import a name on first use: start-up must not pay for onnx_ir."""
    if name in ("operators", "passes"):
        return importlib.import_module(f"onnx_passes.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"onnx_passes.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'onnx_passes' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
