"""The culprit of a failure: the step and rewrite that change results, and the values that come from others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.plan import Step
from onnx_passes.core.records import Application, RunRecord, StepRecord
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.comparison.compare import compare
from onnx_passes.verify.run.execute import Engine, Executor, Sample

_MOST_NODES = 6
"""So many nodes of a rewrite are described."""


class Culprit(Instrument):
    """The last application of a repeated run, described while its nodes are still at hand."""

    def __init__(self) -> None:
        self.rule = self.source = self.matched = self.added = ""
        self.number = self.in_step = 0

    def before_rewrite(self, application: Application) -> str | None:
        """Describe the nodes that the application replaces."""
        self._matched = _describe(application.matched)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Describe the application."""
        self.number, self.rule, self.source = application.number, application.rule, application.source
        self.in_step = application.step.applications
        self.matched, self.added = self._matched, _describe(application.added)


class Snapshots(Instrument):
    """Copies of the model after steps of a repeated run (0: before the first), of most where they say they changed it.

    Those that ``always`` names are kept whatever their steps say.
    """

    def __init__(self, steps: Collection[int], always: Collection[int]) -> None:
        self._steps, self._always = frozenset(steps), frozenset(always)
        self.models: dict[int, ir.Model] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Store the original model."""
        if 0 in self._always:
            self.models[0] = copy_model(model)

    def after_pass(self, record: StepRecord, step: Step, model: ir.Model) -> None:
        """Keep the model after a step."""
        if record.number in self._always or (record.number in self._steps and record.modified):
            self.models[record.number] = copy_model(model)


def first_divergence(
    before: ir.Model,
    after: ir.Model,
    sample: Sample,
    executor: Executor,
    engine: Engine,
    successors: Mapping[str, ir.Value] | None = None,
) -> str:
    """Name the first value, in the order of execution, that both models have and that differs.

    ``successors`` says which value of the second model stands for which one of the first; without it, the names do.
    """
    known = {str(value.name): value for node in before.graph for value in node.outputs if value.name}
    if successors is None:
        successors = {str(value.name): value for node in after.graph for value in node.outputs if value.name in known}
    shared = {value: name for name, value in reversed(list(successors.items())) if name in known}
    try:
        old = executor.prepare(before, also=[known[name] for name in shared.values()], engine=engine).run(sample)
        new = executor.prepare(after, also=list(shared), engine=engine).run(sample)
    except OnnxPassesError:
        return ""
    for node in after.graph:
        for value in node.outputs:
            name = shared.get(value)
            if name is None or name not in old or value.name not in new:
                continue
            result = compare({name: np.asarray(old[name])}, {name: np.asarray(new[value.name])})
            if result.first is not None:
                return f"{result.first.message()}, computed by {_describe([node])}"
    return ""


def _describe(nodes: Sequence[ir.Node]) -> str:
    shown = [_node(node) for node in nodes[-_MOST_NODES:]]
    more = len(nodes) - len(shown)
    return ", ".join([f"{more} more", *shown] if more else shown) or "nothing"


def _node(node: ir.Node) -> str:
    inputs = ", ".join((value.name or "?") if value is not None else "" for value in node.inputs)
    outputs = ", ".join(value.name or "?" for value in node.outputs)
    return f"{outputs} = {node.op_type}({inputs})"


class Successors(Instrument):
    """Follows values from the model at the beginning, of a run or where it is begun with, on.

    What a rewrite replaces is followed to what it puts in; all else stays what it is as long as it keeps its name.
    """

    def __init__(self) -> None:
        self.start: ir.Model | None = None
        self._values: dict[str, ir.Value] = {}
        self._links: dict[ir.Value, ir.Value] = {}

    def before_pipeline(self, run: RunRecord, model: ir.Model) -> None:
        """Begin with the original model."""
        self.begin(model)

    def after_rewrite(self, application: Application) -> None:
        """Link replaced values to their replacements."""
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
