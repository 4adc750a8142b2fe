"""Local verification: the nodes that a rewrite takes out and those it puts in, run side by side on the same values."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.core.base import Pass
from onnx_passes.core.records import Application
from onnx_passes.verify.activations import Activations, Arrays
from onnx_passes.verify.batch import Batch, NotAtHandError, is_plain
from onnx_passes.verify.compare import Comparison, compare
from onnx_passes.verify.execute import Executor

_FEW = 200
"""So many nodes may always be run to check a pass; more only in proportion to the model."""
_MANY = 4000
"""And never more than so many: the time that ONNX Runtime takes for a session grows with the square of its outputs."""


@dataclass(frozen=True, eq=False)
class Window:
    """One application: the old and new values, and what computes them in the model that runs all windows."""

    application: int
    owner: Pass | None
    replaced: tuple[tuple[ir.Value, ir.Value], ...]
    expected: tuple[ir.Value, ...]
    found: tuple[ir.Value, ...]


@dataclass(frozen=True)
class WindowCheck:
    """How the values of one application compare, sample by sample; ``owner`` as in the application."""

    application: int
    owner: Pass | None
    comparisons: tuple[Comparison, ...]


class Windows:
    """The applications of one pass, collected while it runs and executed together when it has ended.

    A window reads values that are known from a run of the model or computed by an earlier window. What cannot be
    checked on its own (subgraphs, random operators, values that are not at hand) is counted as missed.
    """

    def __init__(self, model: ir.Model, nodes: int, activations: Activations) -> None:
        self.missed = 0
        self.windows: list[Window] = []
        self._model = model
        self._activations = activations
        self._batch = Batch(activations)
        self._most_nodes = max(_FEW, min(nodes // 2, _MANY))

    def add(self, application: Application) -> None:
        """Take in an application, before it changes the graph."""
        nodes = (*application.matched, *application.added)
        full = len(self._batch.nodes) > self._most_nodes or self._batch.bytes > self._activations.limit
        if full or application.graph is not self._model.graph or not all(map(is_plain, nodes)):
            self.missed += 1
            return
        try:
            expected, found = self._batch.add(application)
        except NotAtHandError:
            self.missed += 1
        else:
            self.windows.append(Window(application.number, application.owner, application.replaced, expected, found))

    def run(self, executor: Executor) -> list[WindowCheck]:
        """Run all windows and compare; what was computed serves later passes. Raises ExecutionError."""
        wanted = {value: None for window in self.windows for value in (*window.expected, *window.found)}
        arrays = self._batch.run(self._model, list(wanted), executor)
        return [self._compare(window, arrays) for window in self.windows]

    def _compare(self, window: Window, arrays: dict[ir.Value, Arrays]) -> WindowCheck:
        comparisons: list[Comparison] = []
        for (old, new), expected, found in zip(window.replaced, window.expected, window.found, strict=True):
            for left, right in zip(arrays[expected], arrays[found], strict=True):
                comparisons.append(compare({old.name or "": left}, {old.name or "": right}))
            for value in {old, new}:
                self._activations.put(value, arrays[found])
        return WindowCheck(window.application, window.owner, tuple(comparisons))
