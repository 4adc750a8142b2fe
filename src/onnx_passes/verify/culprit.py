"""Find the culprit of a failure: the first step and rewrite that change results, the first value that differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.records import Application
from onnx_passes.verify.compare import compare
from onnx_passes.verify.execute import Engine, Executor, Sample
from onnx_passes.verify.replay import Replay


class Culprit(Instrument):
    """The last application of a replay, described while its nodes are still at hand."""

    def __init__(self) -> None:
        self.rule = self.source = self.matched = self.added = ""
        self.number = self.in_step = 0

    def before_rewrite(self, application: Application) -> str | None:
        """Describe what is about to be replaced."""
        self._matched = _describe(application.matched)
        return None

    def after_rewrite(self, application: Application) -> None:
        """Describe what was applied."""
        self.number, self.rule, self.source = application.number, application.rule, application.source
        self.in_step = application.step.applications
        self.matched, self.added = self._matched, _describe(application.added)


def first_bad(candidates: Sequence[int], is_good: Callable[[int], bool]) -> int:
    """Return the first bad one of candidates that are good up to some point; the last one is known to be bad."""
    good, bad = -1, len(candidates) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_good(candidates[middle]):
            good = middle
        else:
            bad = middle
    return candidates[bad]


def describe_application(replay: Replay, step: int, application: int) -> Culprit | None:
    """Repeat a run up to an application and describe it."""
    last = Culprit()
    try:
        replay.after_application(step, application, last)
    except OnnxPassesError:
        return None
    return last if last.number == application else None


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
