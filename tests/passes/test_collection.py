"""Every rule of the collection survives fuzzing; the settings in pyproject.toml bound how long that takes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.graph.wellformed import inspect
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered, targets_of
from onnx_passes.testing.fuzz.worker import Worker
from tests.helpers.thorough import some
from tests.passes.variations import forked, matched, overridable, verdicts
from tests.testing.fuzz.sound_rules import exact

STEPPED = ("qonnx", "quant", "streamline", "thresholds")
"""Rooms of rules whose results may be off by a step of a quantizer: data that override a constant show that."""


def general() -> dict[str, list[FuzzTarget]]:
    """List the rules of the other rooms, by their pass."""
    found: dict[str, list[FuzzTarget]] = {}
    for target in registered():
        if room_of(target) not in STEPPED:
            found.setdefault(target.name.split("/")[0], []).append(target)
    return found


def room_of(target: FuzzTarget) -> str:
    return Path(target.rule.source.rsplit(":", 1)[0]).parent.name


GENERAL = general()


def test_rule_keeps_what_its_pass_promises(fuzzed_rule):
    fuzzed_rule.check()


@pytest.mark.parametrize("name", some(GENERAL, every=3))
def test_every_rule_applies_and_leaves_what_others_use(name: str):
    for target in GENERAL[name]:
        found = list(islice(matched(target), 2))
        assert found, f"no model for {target.name}"
        variations = [case for case, match in found for case in forked(case, match)]
        assert bool(variations) == (target.rule.size > 1), target.name
        for case in variations:
            model = ir.from_proto(onnx.ModelProto.FromString(case.model))
            outputs = [value.name for value in model.graph.outputs]
            applied = target.apply(model)
            assert not (applied and target.rule.forks == "exclusive"), target.name
            inspect(ir.to_proto(model), target.name)
            assert [value.name for value in model.graph.outputs] == outputs


def test_value_inside_a_match_stays_for_others(fuzzed_rule):
    target: FuzzTarget = fuzzed_rule.target
    if target.rule.size == 1 or room_of(target) in STEPPED:
        pytest.skip("nothing is inside a single node")
    found = verdicts(target, fuzzed_rule.worker, forked)
    assert found, "no model that runs"
    assert not [verdict for verdict in found if verdict.outcome == "finding"]


def test_constant_that_callers_may_override_is_none(fuzzed_rule):
    target: FuzzTarget = fuzzed_rule.target
    if room_of(target) in STEPPED:
        pytest.skip("results may be off by a step")
    assert not [
        verdict for verdict in verdicts(target, fuzzed_rule.worker, overridable) if verdict.outcome == "finding"
    ]


def test_fork_that_a_rule_changes_is_noticed():
    def rewrite(op: Any, x: Any, inner: Any) -> Any:
        inner.producer().replace_input_with(0, op.Abs(x))
        return op.Neg(x)

    pattern = lambda op, x: op.Neg(op.Relu(x, _outputs=["inner"]))  # noqa: E731
    [target] = targets_of(exact(pattern, rewrite, forks="duplicate"))
    with Worker([target]) as worker:
        assert "finding" in {verdict.outcome for verdict in verdicts(target, worker, forked, models=4)}


def test_default_taken_for_a_constant_is_noticed():
    def is_one(op: Any, x: Any, c: Any) -> bool:
        ones = None if c.const_value is None else c.const_value.numpy() == 1
        return ones is not None and ones.size > 0 and bool(ones.all()) and x.shape == c.shape

    [target] = targets_of(exact(lambda op, x, c: op.Mul(x, c), lambda op, x, c: op.Identity(x), is_one))
    with Worker([target]) as worker:
        assert "finding" in {verdict.outcome for verdict in verdicts(target, worker, overridable, models=4)}
