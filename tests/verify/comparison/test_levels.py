from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import ExitCode, UsageError
from onnx_passes.core.evidence import Evidence, RewriteProof
from onnx_passes.core.records import ModelSize, RunRecord, StepRecord
from onnx_passes.verify.comparison.evidence import level_of_run, obstacles, parse_level
from onnx_passes.verify.failure import UnverifiedError, VerificationError

HEAD = '<ir_version: 10, opset_import: ["": 20, "mystery": 1]>'
PLAIN = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = Neg(x) unused = Abs(a) b = Neg(a) y = Relu(b) }}"
MYSTERY = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = mystery.Op(x) unused = Abs(a) y = Relu(a) }}"


@passes.verify.tolerance
class Rescale(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def check(self, op, x):
        return x.producer().op_type != "Mul"

    def rewrite(self, op, x):
        return op.Relu(op.Mul(x, np.float32(1.000001)))


class Swap(Transformation):
    """Change the last node without an editor: nobody can prove anything of it."""

    def call(self, model: ir.Model) -> PassResult:
        last = model.graph[-1]
        model.graph.append(node := ir.node("Max", [last.inputs[0], last.inputs[0]]))
        node.outputs[0].name = "double"
        last.replace_input_with(0, node.outputs[0])
        model.graph.sort()
        return PassResult(model, modified=True)


class Idle(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


@pytest.mark.parametrize(
    ("text", "pipeline", "level"),
    [
        (PLAIN, "remove-unused-nodes", "bits:proved-here"),
        (PLAIN, Swap(), "bits:sampled"),
        (PLAIN, ["remove-unused-nodes", Rescale()], "tolerance:sampled"),
        (PLAIN, Idle(), "unchanged"),
        (MYSTERY, "remove-unused-nodes", "unverified"),
        (MYSTERY, Swap(), "unverified"),
        (MYSTERY, Idle(), "unchanged"),
    ],
)
def test_run_is_as_good_as_its_weakest_step(text, pipeline, level):
    record = apply(ir.from_onnx_text(text), pipeline).record
    assert record.level == level
    assert record.to_json()["level"] == level


WORDS = {
    "proved": "bits:proved",
    "proved-here": "levels:proved-here",
    "equal-in-reals": "reals:proved-here",
    "tested": "bits:tested",
    "sampled": "bits:sampled",
    "tolerance": "tolerance:sampled",
    "metric": "metric:sampled",
    "bits": "bits:sampled",
    "reals": "reals:sampled",
    "levels:proved": "levels:proved",
}


@pytest.mark.parametrize(("text", "finding"), WORDS.items())
def test_words_name_findings(text: str, finding: str):
    assert str(parse_level(text)) == finding


@pytest.mark.parametrize("required", WORDS)
def test_required_level_is_a_condition(required):
    model, pipeline = ir.from_onnx_text(PLAIN), ["remove-unused-nodes", Rescale()]
    verification = Verification(require=required)
    if required in ("tolerance", "metric"):
        assert apply(model, pipeline, verify=verification).modified
    else:
        with pytest.raises(
            VerificationError, match=f"'{WORDS[required]}' is required.*rescale \\(step 2\\): tolerance"
        ):
            apply(model, pipeline, verify=verification)


def _step(number: int, level: str = "", *, kept: tuple[str, ...] = (), modified: bool = True) -> StepRecord:
    step = StepRecord(number, f"pass-{number}", "", "", modified=modified, applications=1 if kept else 0)
    step.evidence = Evidence(level, reason="planted") if level else None
    step.proofs = [RewriteProof(1, "rule", kept, "proved-here")] if kept else []
    return step


def _run(*steps: StepRecord) -> RunRecord:
    return RunRecord("", ModelSize(), steps=list(steps))


@pytest.mark.parametrize("places", list(itertools.permutations(range(3))))
def test_the_weakest_step_stands_in_the_way_wherever_it_is(places: tuple[int, ...]):
    levels = ["bits:sampled", "bits:sampled", "tolerance:sampled"]
    run = _run(*(_step(number, levels[place]) for number, place in enumerate(places)))
    assert level_of_run(run) == "tolerance:sampled"
    (found,) = obstacles(run, parse_level("bits"))
    assert found.startswith(f"pass-{places.index(2)} ")
    assert "together" not in found
    assert not obstacles(run, parse_level("tolerance"))


@pytest.mark.parametrize("level", ["unverified", "failed"])
@pytest.mark.parametrize("modified", [True, False])
def test_a_step_that_could_not_be_checked_counts_though_it_changes_nothing(level: str, *, modified: bool):
    run = _run(_step(1, "bits:sampled"), _step(2, level, modified=modified))
    assert level_of_run(run) == level
    assert [found.partition(" ")[0] for found in obstacles(run, parse_level("metric"))] == ["pass-2"]
    assert level_of_run(_run(_step(1, "bits:sampled"), _step(2, modified=False))) == "bits:sampled"


@pytest.mark.parametrize(
    ("first", "second", "composes"),
    [
        (("bits", "levels", "reals"), ("bits", "levels", "reals"), True),
        (("reals",), ("reals",), True),
        (("reals",), ("bits", "levels", "reals"), True),
        (("reals",), ("bits",), False),
        (("bits",), ("reals",), True),
    ],
)
def test_steps_that_do_not_compose_are_an_obstacle(first: tuple[str, ...], second: tuple[str, ...], composes: bool):
    steps = [_step(number, "tolerance:sampled", kept=kept) for number, kept in enumerate((first, second), 1)]
    wanted = parse_level("equal-in-reals")
    assert all(not obstacles(_run(step), wanted) for step in steps)
    assert (not obstacles(_run(*steps), wanted)) == composes


def test_a_run_that_could_not_execute_has_no_evidence_at_all():
    for pipeline in (Swap(), "remove-unused-nodes"):
        with pytest.raises(UnverifiedError, match="unverified") as raised:
            apply(ir.from_onnx_text(MYSTERY), pipeline, verify=Verification(require="metric"))
        assert raised.value.exit_code == ExitCode.UNVERIFIED


@pytest.mark.parametrize(
    ("text", "hint"), [("sample", "sampled"), ("bit", "bits"), ("bits:prove", "proved"), ("", "HOW")]
)
def test_unknown_level_is_an_error_with_the_nearest(text: str, hint: str):
    with pytest.raises(UsageError, match=hint):
        parse_level(text)
