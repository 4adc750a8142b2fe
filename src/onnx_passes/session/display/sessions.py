"""Pages of sessions and their steps."""

from __future__ import annotations

from onnx_passes.core.pipeline import without_body
from onnx_passes.report.tables import signed
from onnx_passes.session.display.html import Html, badge, code, element, joined, quiet, strong, table, title
from onnx_passes.session.display.models import model_page
from onnx_passes.session.display.runs import level_kind, run_page
from onnx_passes.session.session import Session
from onnx_passes.session.states import SessionState, StateHistory
from onnx_passes.session.writing import PipelineText


def session_page(session: Session) -> Html:
    """Show the current state of a session, its steps and its branches."""
    parts: list[object] = [title(strong(session.title), f", branch {session.name}"), steps_page(session.steps)]
    others = [name for name in session.branches if name != session.name]
    if others:
        parts.append(title(quiet("other branches: "), ", ".join(others)))
    if session.failure is not None:
        parts.append(title(badge("the last step failed", "bad"), " ", code("failure"), " has what is known of it"))
    return joined(parts)


def steps_page(steps: StateHistory) -> Html:
    """Tabulate steps; undone ones are greyed out."""
    rows: list[tuple[object, ...]] = []
    for state, nodes, change, holds in steps.rows():
        now = state.number == steps.current
        text = code(without_body(state.text))
        shown = element("span", text, " ← now" if now else "", of="now" if now else "" if holds else "quiet")
        evidence = badge(state.evidence, level_kind(state.evidence)) if holds else quiet("undone")
        rows.append((state.number, shown, nodes, signed(change), evidence))
    return table(("step", "pass", "nodes", "Δ", "evidence"), rows, numbers=(0, 2, 3))


def state_page(state: SessionState) -> Html:
    """Show the step that led to a state, or the original model."""
    return model_page(state.model) if state.result is None else run_page(state.result.record)


def pipeline_page(pipeline: PipelineText) -> Html:
    """Show pipeline text unchanged."""
    return element("pre", str(pipeline))
