"""Planted faults are located, reduced and found anew by the tools that are made for it."""

from __future__ import annotations

import pytest

from onnx_passes.debug.bisect import bisect
from onnx_passes.debug.judges import ByResults
from onnx_passes.debug.reduce.interesting import fails_by_pipeline, usable_samples
from onnx_passes.debug.reduce.reducer import reduce
from onnx_passes.testing.fuzz import fuzz
from tests.helpers.thorough import THOROUGH, some
from tests.planted.faults import FAULTS, LOCATED
from tests.planted.planting import Fault, Tricky
from tests.planted.test_planted import named
from tests.planted.tricky import RULES

VERIFIED = [fault for fault in FAULTS if fault.seen_by == "verification"]
QUICK = {
    "ties",
    "Squeeze of another axis",
    "NaN from within equals itself",
    "infinity from within minus itself",
    "Relu in front of a comparison",
    "root of a square of a negative number",
    "negation of zeros",
    "difference as a sum",
    "slices ended by the first",
    "Cast to a wider type and back",
}
"""Fuzzing every rule takes minutes; unless that is asked for, only these have their turn."""
RARE: set[str] = set()


def in_turn(planted: list[Fault] | list[Tricky]) -> list[object]:
    """Give each pass one turn."""
    first = {item.pass_class: item for item in reversed(planted) if item.name not in RARE}
    chosen = [item for item in first.values() if THOROUGH or item.name in QUICK]
    return [pytest.param(item, id=named(item)) for item in reversed(chosen)]


@pytest.mark.parametrize("fault", LOCATED, ids=named)
def test_bisection_finds_the_application(fault: Fault):
    # With NaN or infinity as inputs, applications before the planted one are wrong, too.
    found = bisect(fault.model(), fault.pass_class, is_bad=ByResults(inputs=fault.samples, special=False))
    assert found.application == fault.culprit
    assert found.rule == (fault.rule or fault.pass_class.__name__)
    assert found.step == 1
    assert not found.suspects
    assert not found.drift


def test_bisection_with_special_inputs_finds_the_first_application_that_they_show():
    (fault,) = (fault for fault in LOCATED if fault.name == "NaN from within equals itself")
    found = bisect(fault.model(), fault.pass_class)
    assert (found.application, found.drift) == (1, "")


@pytest.mark.parametrize("fault", [fault for fault in LOCATED if fault.culprit == 7], ids=named)
def test_bisection_finds_the_application_among_other_passes(fault: Fault):
    found = bisect(fault.model(), ["shape-inference", fault.pass_class, "cleanup"])
    assert found.place.startswith(f"{fault.culprit} of ")
    assert found.text == fault.pass_class().name


@pytest.mark.parametrize("fault", some(VERIFIED, every=5), ids=named)
def test_reduction_leaves_little_that_fails_in_the_same_way(fault: Fault):
    model = fault.model()
    pipeline = [fault.pass_class() for _ in range(fault.times)]
    fails = fails_by_pipeline(pipeline)
    reduced = reduce(model, usable_samples(model, fault.samples), fails, most_seconds=60)
    assert reduced.nodes_before >= 8
    assert reduced.nodes_after <= 5
    assert fails_by_pipeline(pipeline, symptom=fails.symptom)(reduced.model, reduced.samples)


@pytest.mark.parametrize("fault", in_turn(LOCATED))
def test_fuzzer_finds_the_fault(fault: Fault):
    report = fuzz(fault.pass_class, cases=250 if THOROUGH else 60)
    assert report.findings, report.describe()


@pytest.mark.parametrize("tricky", in_turn(RULES))
def test_fuzzer_finds_nothing_in_a_right_rule(tricky: Tricky):
    report = fuzz(tricky.pass_class, cases=120 if THOROUGH else 40)
    assert not report.findings, report.describe()
    assert report.matches
