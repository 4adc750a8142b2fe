"""Pages of results for notebooks: self-contained HTML, with a short text as alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_passes.api import Result
from onnx_passes.check.verdict import Verdict
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.records import RunRecord, StepRecord
from onnx_passes.debug.why_not import WhyNot
from onnx_passes.graph.diff import ModelDiff
from onnx_passes.history.events import Ancestry
from onnx_passes.passes.analyse.inspection import Inspection
from onnx_passes.passes.analyse.ranges import Ranges
from onnx_passes.rewrite.match import Match
from onnx_passes.session.display import answers, changes, facts, models, runs, sessions
from onnx_passes.session.display.html import Html, page
from onnx_passes.session.failed import FailedStep
from onnx_passes.session.finding import Matches
from onnx_passes.session.session import Session
from onnx_passes.session.states import SessionState, StateHistory
from onnx_passes.session.writing import PipelineText
from onnx_passes.verify.failure import Failure

PAGES: dict[type, Callable[[Any], Html]] = {
    Ancestry: answers.ancestry_page,
    Verdict: answers.verdict_page,
    FailedStep: answers.failed_step_page,
    Failure: answers.failure_page,
    Inspection: facts.inspection_page,
    Match: changes.match_page,
    Matches: changes.matches_page,
    ModelDiff: changes.diff_page,
    OnnxPassesError: answers.error_page,
    PipelineText: sessions.pipeline_page,
    Ranges: facts.ranges_page,
    Result: runs.result_page,
    RunRecord: runs.run_page,
    Session: sessions.session_page,
    SessionState: sessions.state_page,
    StepRecord: runs.step_page,
    StateHistory: sessions.steps_page,
    WhyNot: answers.why_not_page,
    ir.Function: models.function_page,
    ir.Graph: models.graph_page,
    ir.Model: models.model_page,
    ir.Node: models.node_page,
}
"""Page functions by class, also for subclasses."""
_LINES = 24


def mimebundle(thing: object) -> dict[str, str]:
    """Return the notebook representations: a page, and a short text as alternative."""
    return {"text/html": html_of(thing), "text/plain": text_of(thing)}


def html_of(thing: object) -> str:
    """Return the page of a result."""
    make = next(PAGES[cls] for cls in type(thing).__mro__ if cls in PAGES)
    # Some notebooks serialise nothing but strings themselves: no class below them.
    return str(page(make(thing), type(thing).__name__))


def text_of(thing: object) -> str:
    """Return the text of a result, its first lines if there are many."""
    lines = _text(thing).rstrip("\n").split("\n")
    more = len(lines) - _LINES
    return "\n".join([*lines[:_LINES], f"… {more} more lines"] if more > 0 else lines)


def _text(thing: object) -> str:
    if isinstance(thing, ir.Model | ir.Graph | ir.Function):
        graph = thing if isinstance(thing, ir.Graph) else thing.graph
        return f"<{type(thing).__name__} {graph.name}: {sum(1 for _ in graph.all_nodes())} nodes>"
    if isinstance(thing, Result | RunRecord):
        return runs.run_text(thing.record if isinstance(thing, Result) else thing)
    return str(thing)
