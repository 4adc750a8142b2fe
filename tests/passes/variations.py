"""Variations of models that a rule rewrites: others use a value inside the match, callers may override a constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import onnx
import onnx_ir as ir

from onnx_passes.graph.copy import copy_model
from onnx_passes.rewrite.match import Match
from onnx_passes.testing.fuzz.build import ModelInput
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, Lessons, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.generate import generate
from onnx_passes.testing.fuzz.judge import CaseVerdict
from onnx_passes.testing.fuzz.targets import FuzzTarget
from onnx_passes.testing.fuzz.worker import Worker

T = TypeVar("T")
_UNBIASED = 250
"""So many models are drawn before what let the rule match leads to the next ones."""
_MOST, _MOST_MATCHED = 500, 12


class Plainly(Draws):
    """Draws a model with nothing around the pattern."""

    def freely(self, options: Sequence[T]) -> T:
        return options[0]


def matched(target: FuzzTarget) -> Iterator[tuple[Case, Match]]:
    """Draw models that a rule rewrites."""
    lessons, seen = Lessons(), set[bytes]()
    for seed in range(_MOST):
        draws = Plainly(RandomSource(seed), lessons.experience() if seed > _UNBIASED else None)
        try:
            case = _inferred(generate(target, draws))
            match = _match(target, ir.from_proto(onnx.ModelProto.FromString(case.model)))
        except UnbuildableError:
            match = None
        lessons.add(draws.answers, good=match is not None)
        if match is not None and case.model not in seen:
            seen.add(case.model)
            yield case, match
        if len(seen) == _MOST_MATCHED:
            return


def _inferred(case: Case) -> Case:
    model = onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(case.model), data_prop=True)
    return replace(case, model=model.SerializeToString())


def _match(target: FuzzTarget, model: ir.Model) -> Match | None:
    if not target.apply(copy_model(model)):
        return None
    found = (target.rule.find(model, model.graph, node, refused=lambda _: None) for node in model.graph)
    return next((match for match in found if match is not None), None)


def forked(case: Case, match: Match) -> Iterator[Case]:
    """Let something else use a value inside the match: the caller, or another node."""
    for value in (value for node in match.nodes for value in node.outputs):
        if value in match.output_values or not value.uses() or value.is_graph_output():
            continue
        if value.dtype is None or value.shape is None:
            continue
        for name in (value.name, "also"):
            model = onnx.ModelProto.FromString(case.model)
            if name == "also":
                model.graph.node.append(onnx.helper.make_node("Identity", [value.name], ["also"]))
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, value.dtype.value, None))
            yield _inferred(replace(case, model=model.SerializeToString()))


def overridable(case: Case, match: Match) -> Iterator[Case]:
    """Let the caller override a constant that the match reads."""
    read = dict.fromkeys(value for node in match.nodes for value in node.inputs if value is not None)
    for value in read:
        if not value.is_initializer() or value.is_graph_input() or value.const_value is None or value.dtype is None:
            continue
        model = onnx.ModelProto.FromString(case.model)
        shape = tuple(int(size) for size in value.const_value.shape)
        model.graph.input.append(onnx.helper.make_tensor_value_info(value.name, value.dtype.value, shape))
        default = ModelInput(str(value.name), value.dtype, shape, value.const_value.numpy(), overridable=True)
        yield replace(case, model=model.SerializeToString(), inputs=(*case.inputs, default))


def verdicts(
    target: FuzzTarget, worker: Worker, vary: Callable[[Case, Match], Iterator[Case]], models: int = 1
) -> list[CaseVerdict]:
    """Judge the variations of some models; those that do not run before the rule is applied do not count."""
    found: list[CaseVerdict] = []
    for case, match in matched(target):
        judged = [worker.judge(target, varied) for varied in vary(case, match)]
        judged = [verdict for verdict in judged if verdict.outcome != "skipped"]
        found += judged
        models -= bool(judged)
        if not models:
            break
    return found
