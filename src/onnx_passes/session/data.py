"""The data of a session: given for the original model, and taken on where passes change the interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import onnx_ir as ir

from onnx_passes.check.baseline import Narrowing
from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verdict import Verdict, check_against
from onnx_passes.core.claims import Claim
from onnx_passes.core.plan import Plan
from onnx_passes.session.states import SessionState
from onnx_passes.verify.comparison.declarations import ChangesInterface, ShowsInside
from onnx_passes.verify.run.execute import Executor, Sample
from onnx_passes.verify.samples.reference import read_inputs


@dataclass(frozen=True)
class Data:
    """Inputs as the original model takes them; without any, samples are generated from the seed."""

    inputs: Sequence[Any]
    seed: int = 0

    def at(self, state: SessionState) -> Sequence[Any]:
        """Return the inputs as the model of a state takes them."""
        changes = _changes(state)
        if not self.inputs or not changes:
            return self.inputs
        narrowing = Narrowing(_original(state), plan_of(state))
        samples = [narrowing.read(sample) for sample in read_inputs(narrowing.model, self.inputs)]
        for model, change in changes:
            samples = _taken(change, model, samples)
        return samples

    def compare_with_original(self, state: SessionState) -> Verdict:
        """Run the original and the model of a state on the same samples, each as it takes them."""
        settings = Settings(inputs=self.inputs, seed=self.seed)
        original = Original(_original(state), settings, plan_of(state))
        return check_against(original, Claim("tolerance"), state.model, settings, changes=_changes(state))


def plan_of(state: SessionState) -> Plan:
    """Put together all that ran from the original to a state."""
    plans = [each.plan for each in state.path()]
    return Plan(
        tuple(step for plan in plans for step in plan.steps),
        ", ".join(filter(None, (plan.pipeline for plan in plans))),
    )


def _original(state: SessionState) -> ir.Model:
    return state.path()[0].model


def _changes(state: SessionState) -> list[tuple[ir.Model, ChangesInterface]]:
    """List the passes on the way to a state that changed inputs or outputs, with the model of the state before."""
    return [
        (before.model, step.pass_)
        for before, after in pairwise(state.path())
        for _, step in after.plan.walk()
        if isinstance(step.pass_, ChangesInterface)
    ]


def _taken(change: ChangesInterface, model: ir.Model, samples: Sequence[Sample]) -> list[Sample]:
    """Return inputs for a model as a pass lets it take them, with values from inside it if it shows some."""
    values = change.values_inside(model) if isinstance(change, ShowsInside) else ()
    if values:
        ready = Executor().prepare(model, also=values, feeds={name for sample in samples for name in sample})
        samples = [{**ready.run(sample), **sample} for sample in samples]
    return list(map(change.inputs_after, samples))
