"""What the fuzzer says of rules: nothing of those that are right, the truth of those that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from onnxscript.rewriter.rules import common

from onnx_passes.testing.fuzz import Effort, Kind, fuzz
from tests.helpers.thorough import some
from tests.testing.fuzz.faulty_rules import FAULTY
from tests.testing.fuzz.sound_rules import SOUND

IN_A_HURRY = Effort(most_scouts=120, shrink_cases=5)


@pytest.mark.parametrize("name", some(SOUND, every=3))
def test_no_false_alarm(name: str) -> None:
    report = fuzz(SOUND[name], cases=12, effort=IN_A_HURRY)
    assert not report.findings, report.describe()
    assert report.cases == 12
    assert report.matches >= 3, report.summary()


@pytest.mark.parametrize("name", some(FAULTY, every=2))
def test_fault_is_found(name: str) -> None:
    rule, kinds = FAULTY[name]
    report = fuzz(rule, effort=IN_A_HURRY)
    assert report.kinds & kinds, report.describe()


@pytest.mark.parametrize(
    ("rule", "kinds"),
    [
        (common.min_min_rule, {Kind.CRASH}),
        (common.max_max_rule, {Kind.CRASH}),
        (common.min_max_rule, {Kind.CRASH}),
        (common.max_min_rule, {Kind.CRASH}),
        (common.flatten_to_reshape_rule, {Kind.INVALID}),
        (common.matmul_add_to_gemm_rule, {Kind.INVALID}),
        (common.successive_clip_rule, {Kind.WRONG, Kind.CRASH}),
        (common.successive_relu_clip_rule, {Kind.WRONG, Kind.CRASH}),
    ],
    ids=["min_min", "max_max", "min_max", "max_min", "flatten", "gemm", "clip_clip", "relu_clip"],
)
def test_known_faults_of_shipped_rules(rule: Any, kinds: set[Kind]) -> None:
    report = fuzz(rule, effort=IN_A_HURRY)
    assert report.kinds & kinds, report.describe()


@pytest.mark.parametrize("rule", [common.mul_by_1_rule, common.add_0_rule], ids=["mul", "add"])
def test_shipped_rules_are_safe_from_defaults_in_our_driver(rule: Any) -> None:
    assert not fuzz(rule, cases=40, effort=IN_A_HURRY).findings
