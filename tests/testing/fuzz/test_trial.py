"""Trials of rules: the same again from the same seed, shrunk to the smallest model, and none ends with its process."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import Rule, Transformation, constant
from onnx_passes.core.errors import RegistrationError, UsageError
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.testing.fuzz import Effort, Kind, fuzz, fuzz_each
from tests.testing.fuzz.sound_rules import exact


def rule(pattern: Any, rewrite: Any, check: Any = None, name: str = "tried") -> Rule:
    return Rule(pattern, rewrite, check, name=name)


WRONG_ADD = rule(lambda op, x, y: op.Add(x, y), lambda op, x, y: op.Sub(x, y), name="wrong-add")
NEG_NEG = rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), name="neg-neg")


def test_same_seed_same_report() -> None:
    first, second = (fuzz(WRONG_ADD, cases=20, seed=3) for _ in range(2))
    assert [finding.to_json() for finding in first.findings] == [finding.to_json() for finding in second.findings]
    assert (first.cases, first.matches, first.skipped) == (second.cases, second.matches, second.skipped)


def test_failure_is_shrunk_to_the_smallest_model() -> None:
    finding = fuzz(WRONG_ADD).findings[-1]
    assert finding.kind is Kind.WRONG
    model = ir.from_onnx_text(finding.model_text)
    assert [node.op_type for node in model.graph] == ["Add"]
    assert sum(array.size for array in finding.feed.values()) <= 4
    assert "Sub" in finding.after_text
    text = finding.describe()
    for part in ("WRONG in wrong-add", "before:", "after:", "inputs:", "expected"):
        assert part in text


def test_finding_can_be_reproduced_from_its_text() -> None:
    finding = fuzz(WRONG_ADD).findings[-1]
    import onnxruntime

    results = []
    for text in (finding.model_text, finding.after_text):
        proto = ir.to_proto(ir.from_onnx_text(text))
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        results.append(session.run(None, dict(finding.feed))[0])
    assert not np.array_equal(results[0], results[1])


def test_process_that_dies_is_a_finding() -> None:
    def check(op: Any, x: ir.Value) -> bool:
        if len(x.shape or ()) == 2:
            os.kill(os.getpid(), signal.SIGFPE)
        return True

    dying = rule(lambda op, x: op.Neg(x), lambda op, x: op.Sub(op.Sub(x, x), x), check)
    report = fuzz(dying, cases=30, effort=Effort(shrink_cases=10))
    [crash] = [finding for finding in report.findings if finding.kind is Kind.CRASH]
    assert "SIGFPE" in crash.message
    assert len(ir.from_onnx_text(crash.model_text).graph.inputs or [0]) >= 1


def test_rule_that_hangs_is_a_finding() -> None:
    def check(op: Any, x: ir.Value) -> bool:
        while len(x.shape or ()) == 3:
            time.sleep(0.1)
        return False

    hanging = rule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), check)
    report = fuzz(hanging, cases=6, effort=Effort(first_scouts=5, most_scouts=5, shrink_cases=1, seconds=0.3))
    assert report.kinds == {Kind.HANG}


def test_rule_that_was_slow_once_is_no_finding(tmp_path: Path) -> None:
    was_slow = tmp_path / "slow"

    def check(op: Any, x: ir.Value) -> bool:
        if not was_slow.exists():
            was_slow.touch()
            time.sleep(60)
        return True

    slow = rule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), check)
    report = fuzz(slow, cases=5, effort=Effort(seconds=2.0))
    assert was_slow.exists()
    assert report.ok, report.describe()


def test_rule_that_feeds_itself_is_a_finding() -> None:
    endless = rule(lambda op, x: op.Relu(x), lambda op, x: op.Relu(op.Relu(x)))
    report = fuzz(endless, cases=1, effort=Effort(first_scouts=1, most_scouts=1, shrink_cases=1))
    assert report.kinds == {Kind.HANG}
    assert "does not end" in report.findings[0].message


def test_rule_that_never_matches_is_dead() -> None:
    report = fuzz(rule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), lambda op, x: False), cases=15)
    assert not report.findings
    assert report.dead == ("tried",)
    assert not report.ok
    assert "never matches" in report.summary()


def test_operator_that_does_not_exist_is_dead() -> None:
    report = fuzz(rule(lambda op, x: op.Frobnicate(x, x), lambda op, x: op.Equal(x, x)), cases=5)
    assert (report.matches, report.ok) == (0, False)


def test_every_rule_of_a_pass_is_fuzzed() -> None:
    class Two(Transformation, RewriteRuleSetPass):
        def rules(self) -> list[Rule]:
            return [NEG_NEG, WRONG_ADD]

    reports = list(fuzz_each(Two, cases=15))
    assert [report.rule for report in reports] == ["two/neg-neg", "two/wrong-add"]
    assert [report.ok for report in reports] == [True, False]
    total = fuzz(Two, cases=15)
    assert total.cases == sum(report.cases for report in reports)
    assert [finding.rule for finding in total.findings] == ["two/wrong-add"]


def test_what_is_no_rule_is_refused() -> None:
    with pytest.raises(UsageError, match="not made of rules"):
        fuzz("checker")
    with pytest.raises(UsageError, match="no pass or group named 'nothing'"):
        fuzz("nothing")


def test_wildcards_stand_for_many_operators() -> None:
    wild = rule(
        lambda op, x: op.submodule("")(x, _outputs=["y"]),
        lambda op, x, y: getattr(op, y.producer().op_type)(op.Identity(x), **dict(y.producer().attributes.items())),
        lambda op, x, y: x.producer() is None and y.producer().op_type in ("Relu", "Abs", "Neg", "Tanh"),
    )
    report = fuzz(wild, cases=20)
    assert not report.findings, report.describe()
    assert report.matches > 0


def test_hints_lead_to_constants_that_nobody_would_guess() -> None:
    def is_magic(op: Any, x: Any, c: Any) -> bool:
        return constant(c) is not None and constant(c).shape == () and float(constant(c)) == 1234.0

    def make(**options: Any) -> Any:
        return exact(
            lambda op, x, c: op.Mul(x, c),
            lambda op, x, c: op.Mul(op.Identity(c), x),
            is_magic,
            commute=False,
            **options,
        )

    assert fuzz(make(), cases=10).matches == 0
    assert fuzz(make(fuzz_hints={"constants": {"c": [1234.0]}, "dtypes": ["float32"]}), cases=20).matches >= 7


def test_hints_may_be_models() -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> g (float[7] x) => (float[7] y) { y = Selu(x) }'

    def is_seven(op: Any, x: Any) -> bool:
        return tuple(x.shape or ()) == (7,)

    hinted = exact(lambda op, x: op.Selu(x), lambda op, x: op.Elu(x), is_seven, fuzz_hints={"models": [text]})
    report = fuzz(hinted, cases=20)
    assert Kind.WRONG in report.kinds, report.describe()


def test_unknown_hints_are_refused() -> None:
    hinted = exact(lambda op, x: op.Selu(x), lambda op, x: op.Elu(x), fuzz_hints={"constant": {}})
    with pytest.raises(RegistrationError, match="did you mean 'constants'"):
        fuzz(hinted)


def test_failures_join_the_corpus_and_are_tried_first(tmp_path: Path) -> None:
    first = fuzz(WRONG_ADD, corpus=tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert {name.split(".")[-1] for name in files} == {"npz", "onnxtxt"}
    assert any(name.startswith("wrong-add-WRONG-") for name in files)
    again = fuzz(WRONG_ADD, corpus=tmp_path)
    assert (again.cases, again.kinds) == (len(first.findings), first.kinds)
    assert {f.model_text for f in again.findings} == {f.model_text for f in first.findings}


def test_repaired_rule_passes_its_corpus(tmp_path: Path) -> None:
    fuzz(WRONG_ADD, corpus=tmp_path)
    repaired = rule(
        lambda op, x, y: op.Add(x, y),
        lambda op, x, y: op.Sub(x, op.Neg(y)),
        lambda op, x, y: y.dtype is ir.DataType.FLOAT,
        name="wrong-add",
    )
    report = fuzz(repaired, cases=10, corpus=tmp_path)
    assert not report.findings
    assert report.cases > 10


def test_corpus_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="not a folder"):
        fuzz(NEG_NEG, corpus=tmp_path / "file")


def test_flags_excuse_what_they_name() -> None:
    def divided(*flags: str) -> Any:
        return exact(
            lambda op, x: op.Div(x, x),
            lambda op, x: op.Exp(op.Sub(x, x)),
            lambda op, x: x.dtype is ir.DataType.FLOAT,
            fast_math=flags,
        )

    assert fuzz(divided(), cases=30).kinds == {Kind.NONFINITE}
    assert not fuzz(divided("nnan"), cases=30).findings
