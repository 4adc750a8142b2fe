"""Which value of a model stands for which one of an earlier version: a run is repeated and watched."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model

Watch = Callable[[StepRecord, ir.Model], None]


class Successors(Instrument):
    """Follows values from the model after a step (0 is before the first) to the end of a run.

    What a rewrite replaces is followed to what it puts in; all else stays what it is as long as it keeps its name.
    ``before`` and ``after`` are called with the model around every later step.
    """

    def __init__(self, since: int, before: Watch | None = None, after: Watch | None = None) -> None:
        self.since = since
        self.start: ir.Model | None = None
        self._before, self._after = before, after
        self._values: dict[str, ir.Value] = {}
        self._links: dict[ir.Value, ir.Value] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Begin with the model as it came."""
        if self.since == 0:
            self._begin(model)

    def before_pass(self, record: StepRecord, step: Step, model: ir.Model) -> str | None:
        """Show the model before a later step."""
        if self.start is not None and not record.has_children and self._before is not None:
            self._before(record, model)
        return None

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Begin after the step, or show the model after a later one."""
        if record.number == self.since:
            self._begin(model)
        elif self.start is not None and not record.has_children and self._after is not None:
            self._after(record, model)

    def after_rewrite(self, application: Application) -> None:
        """Link what was replaced to what stands for it now."""
        if self.start is not None:
            self._links.update((old, new) for old, new in application.replaced if old is not new)

    def _begin(self, model: ir.Model) -> None:
        self.start = copy_model(model)
        self._values = {str(value.name): value for node in model.graph for value in node.outputs}

    def find(self, names: list[str], model: ir.Model) -> dict[str, ir.Value]:
        """Return what stands in the model at the end for values of the one at the start, where anything does."""
        computed = {value: str(value.name) for node in model.graph for value in node.outputs}
        by_name = {name: value for value, name in computed.items()}
        found: dict[str, ir.Value] = {}
        for name in names:
            value, seen = self._values.get(name), set[ir.Value]()
            while value in self._links and value not in seen:
                seen.add(value)
                value = self._links[value]
            if value in computed and (seen or computed[value] == name):
                found[name] = value
            elif name in by_name and not seen:
                # A pass that returns another model has copied it.
                found[name] = by_name[name]
        return found
