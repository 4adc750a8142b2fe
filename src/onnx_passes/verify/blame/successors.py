"""Which value of a model stands for which one of an earlier version: a run is repeated and watched."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.core.instruments import Instrument
from onnx_passes.core.records import Application, RunRecord
from onnx_passes.graph.copy import copy_model


class Successors(Instrument):
    """Follows values from the model at the beginning, of a run or where it is begun with, on.

    What a rewrite replaces is followed to what it puts in; all else stays what it is as long as it keeps its name.
    """

    def __init__(self) -> None:
        self.start: ir.Model | None = None
        self._values: dict[str, ir.Value] = {}
        self._links: dict[ir.Value, ir.Value] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Begin with the model as it came."""
        self.begin(model)

    def after_rewrite(self, application: Application) -> None:
        """Link what was replaced to what stands for it now."""
        if self.start is not None:
            self._links.update((old, new) for old, new in application.replaced if old is not new)

    def begin(self, model: ir.Model) -> None:
        """Begin with a model."""
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
