"""The history of a session: a tree of models, of which each remembers the step that led to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import onnx_ir as ir

from onnx_passes.api import Result
from onnx_passes.core.base import Pass
from onnx_passes.core.display import Displayed
from onnx_passes.core.measure import count_nodes
from onnx_passes.core.plan import Plan
from onnx_passes.report.tables import evidence_words


@dataclass(eq=False, repr=False)
class SessionState(Displayed):
    """A model of the history, and the result of its step; the original has none.

    Models share their tensors, and a step that changes nothing keeps the model of the one before.
    """

    model: ir.Model
    result: Result | None = None
    parent: SessionState | None = None
    number: int = 0

    @property
    def text(self) -> str:
        """Return the step as pipeline text."""
        return self.result.record.pipeline if self.result is not None else "original"

    @property
    def evidence(self) -> str:
        """Describe the level of evidence that the step kept the results."""
        return "" if self.result is None else evidence_words(self.result.record)

    @property
    def passes(self) -> list[Pass]:
        """List the passes that were asked for."""
        return self.plan.requested

    @property
    def plan(self) -> Plan:
        """Return the executed plan."""
        plan = None if self.result is None else self.result.record.plan
        return plan or Plan((), "")

    def then(self, result: Result) -> SessionState:
        """Add the state after a step; a step without changes shares its model."""
        if not result.modified:
            result.model = self.model
        return SessionState(result.model, result, self, self.number + 1)

    def path(self) -> list[SessionState]:
        """List the states from the original to this one."""
        states: list[SessionState] = [self]
        while (parent := states[-1].parent) is not None:
            states.append(parent)
        return states[::-1]

    def __repr__(self) -> str:
        nodes = count_nodes(self.model)
        return f"<step {self.number} {self.text}: {nodes} nodes{f', {self.evidence}' if self.evidence else ''}>"


@dataclass(frozen=True, repr=False)
class StateHistory(Sequence[SessionState], Displayed):
    """The states from the original, which is number 0, to ``current``; then the undone ones."""

    states: tuple[SessionState, ...]
    current: int

    @overload
    def __getitem__(self, index: int) -> SessionState: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SessionState]: ...
    def __getitem__(self, index: int | slice) -> SessionState | Sequence[SessionState]:
        """Return a state by its number."""
        return self.states[index]

    def __len__(self) -> int:
        return len(self.states)

    def rows(self) -> Iterator[tuple[SessionState, int, int, bool]]:
        """Iterate over the states with their numbers of nodes, the changes of these, and False for undone states."""
        before = count_nodes(self.states[0].model)
        for state in self.states:
            nodes = count_nodes(state.model)
            yield state, nodes, nodes - before, state.number <= self.current
            before = nodes

    def __repr__(self) -> str:
        return f"<Steps: {self.current} of {len(self.states) - 1}>"

    def __str__(self) -> str:
        lines: list[str] = []
        for state, nodes, change, holds in self.rows():
            mark = "→" if state.number == self.current else " " if holds else "·"
            changed = f" ({change:+})".replace("-", "−") if change else ""
            evidence = f", {state.evidence}" if state.evidence else ""
            lines.append(f"{mark} {state.number}  {state.text}: {nodes} nodes{changed}{evidence}")
        return "\n".join(lines)
