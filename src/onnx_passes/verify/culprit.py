"""Find the culprit of a failed pass: the first rule application that changes results, the first value that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.instruments import Instrument, Limit
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import Plan, Step
from onnx_passes.core.records import Application
from onnx_passes.graph.copy import copy_model
from onnx_passes.verify.compare import compare
from onnx_passes.verify.execute import Engine, Executor, Sample


class Culprit(Instrument):
    """The last application of a replay, described while its nodes are still at hand."""

    def __init__(self) -> None:
        self.rule = self.source = self.matched = self.added = ""
        self.number = 0

    def before_rewrite(self, application: Application) -> str | None:
        """Describe what is about to be replaced."""
        self._matched = _describe(application.matched)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Describe what was applied."""
        self.number, self.rule, self.source = application.number, application.rule, application.source
        self.matched, self.added = self._matched, _describe(application.added)


def first_bad_application(
    before: ir.Model, step: Step, applications: int, is_good: Callable[[ir.Model], bool]
) -> Culprit | None:
    """Replay a pass with fewer and fewer applications; takes a logarithmic number of runs."""
    good, bad = 0, applications
    try:
        while bad - good > 1:
            middle = (good + bad) // 2
            if is_good(_replay(before, step, [Limit(middle)])):
                good = middle
            else:
                bad = middle
        last = Culprit()
        _replay(before, step, [Limit(bad), last])
    except OnnxPassesError:
        return None
    return last if last.number == bad else None


def _replay(before: ir.Model, step: Step, instruments: Sequence[Instrument]) -> ir.Model:
    alone = Plan((Step(step.pass_, step.why),), step.text)
    return Manager(instruments).run(alone, copy_model(before)).model


def first_divergence(before: ir.Model, after: ir.Model, sample: Sample, executor: Executor, engine: Engine) -> str:
    """Name the first value, in the order of execution, that both models have and that differs."""
    known = {value.name: value for node in before.graph for value in node.outputs if value.name}
    shared = [value for node in after.graph for value in node.outputs if value.name in known]
    try:
        old = executor.prepare(before, also=[known[value.name or ""] for value in shared], engine=engine).run(sample)
        new = executor.prepare(after, also=shared, engine=engine).run(sample)
    except OnnxPassesError:
        return ""
    for value in shared:
        name = value.name or ""
        if name in old and name in new:
            result = compare({name: np.asarray(old[name])}, {name: np.asarray(new[name])})
            if result.first is not None:
                producer = value.producer()
                return f"{result.first.message()}, computed by {_describe([producer] if producer else [])}"
    return ""


def _describe(nodes: Sequence[ir.Node]) -> str:
    return ", ".join(_node(node) for node in nodes) or "nothing"


def _node(node: ir.Node) -> str:
    inputs = ", ".join((value.name or "?") if value is not None else "" for value in node.inputs)
    outputs = ", ".join(value.name or "?" for value in node.outputs)
    return f"{outputs} = {node.op_type}({inputs})"
