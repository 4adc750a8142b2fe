from __future__ import annotations

import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import simplify
from onnx_passes.core.errors import UsageError
from onnx_passes.core.plan import plan
from tests.passes.tools import model_of, operators

NET = """g (float[8] x) => (float[?] y) <int64[1] a = {1}, int64[1] b = {2}, int64[1] e = {7}, float one = {1}> {
    [i] p = Identity(x)
    [m] q = Mul(p, one)
    [s] r = Slice(q, a, e)
    [t] y = Slice(r, b, e)
}"""


def test_a_pass_is_left_out_wherever_it_is_nested():
    assert operators(simplify(model_of(NET)).model.graph) == ["Slice"]
    result = simplify(model_of(NET), skip=["eliminate-slice"])
    assert operators(result.model.graph) == ["Slice", "Slice"]
    names = {rule.owner for step in result.record.steps for rule in step.rules}
    assert "eliminate-slice" not in names
    assert "eliminate-identity" in names


def test_a_rule_is_left_out_of_its_pass_alone():
    result = simplify(model_of(NET), skip=["eliminate-slice/SliceOfSlice"])
    assert operators(result.model.graph) == ["Slice", "Slice"]
    left = {rule.name for step in result.record.steps for rule in step.rules if rule.owner == "eliminate-slice"}
    assert left
    assert "SliceOfSlice" not in left


@pytest.mark.parametrize(
    "text", ["skip{names=[Eliminate_Slice]}(eliminate)", "skip{names=['eliminate-sl*']}(eliminate)"]
)
def test_names_in_any_spelling_and_patterns(text: str):
    assert operators(run_pipeline(model_of(NET), text).model.graph)[-2:] == ["Slice", "Slice"]


def test_what_is_left_out_is_noted():
    result = run_pipeline(model_of(NET), "skip{names=[remove-unused]}(cleanup, remove-unused)")
    (step,) = [step for step in result.record.steps if step.name == "skip"]
    assert step.notes == ["left out: remove-unused"]
    assert "remove-unused-nodes" not in [step.name for step in result.record.steps]


def test_rules_of_passes_written_by_hand_are_left_out():
    model = model_of("g (float[2] x) => (float[2] y) { [n] a = Relu(x) [n] y = Neg(x) }")
    result = run_pipeline(model, "skip{names=['remove-unused-nodes/unused node']}(remove-unused-nodes)")
    (step,) = [step for step in result.record.steps if step.name == "remove-unused-nodes"]
    assert step.rules[0].refused == {"the rule is skipped": 1}


def test_groups_are_left_out_and_what_holds_nothing_else():
    assert [step.name for _, step in plan("skip{names=[eliminate]}(eliminate, cleanup)").walk()][:2] == [
        "skip",
        "cleanup",
    ]
    unused = ["remove-unused-nodes", "remove-unused-functions", "remove-unused-opsets"]
    found = plan(f"skip{{names=[{', '.join(unused)}]}}(cleanup)")
    assert "remove-unused" not in [step.name for _, step in found.walk()]


def test_what_follows_a_pass_is_left_out_and_what_a_pass_needs_is_not():
    with pytest.raises(UsageError, match="'shape-inference' is not a pass or rule of this pipeline"):
        plan("skip{names=[shape-inference]}(fold-constants)")
    model = model_of("g (float[batch] x) => (float[batch] y) { y = Relu(x) }")
    steps = run_pipeline(model, "skip{names=[shape-inference]}(fix-shapes{batch=1}, fold-constants)").record.steps
    assert [step.why for step in steps if step.name == "shape-inference"] == ["needed by fold-constants"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "skip{names=[fuse-bais]}(simplify)",
            "'fuse-bais' is not a pass or rule of this pipeline.*did you mean 'fuse-bias'",
        ),
        ("skip{names=[streamline]}(simplify)", "'streamline' is not a pass or rule of this pipeline"),
        ("skip{names=[eliminate-slice/SliceOfSlices]}(simplify)", "did you mean 'eliminate-slice/SliceOfSlice'"),
        ("skip(simplify)", "pass 'skip' needs names"),
    ],
)
def test_refuses_what_names_nothing(text: str, reason: str):
    with pytest.raises(UsageError, match=reason):
        plan(text)


def test_python_takes_several_passes_and_keeps_nodes():
    result = run_pipeline(model_of(NET), ["eliminate", "cleanup"], skip=["eliminate-slice"], keep=["i", "Mul"])
    assert operators(result.model.graph) == ["Identity", "Mul", "Slice", "Slice"]
    assert "onnx_passes.keep" not in result.model.metadata_props
    notes = [note for step in result.record.steps for note in step.notes]
    assert "protected: 2 nodes (i, m)" in notes


def test_a_pattern_of_passes_is_not_their_group():
    found = [step.name for _, step in plan("skip{names=['eliminate-s*', eliminate-slice]}(eliminate)").walk()]
    assert "eliminate-slice" not in found
    assert "eliminate-identity" in found
