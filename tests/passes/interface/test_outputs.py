"""Which values a model returns: ``add-outputs``, ``drop-outputs``, ``set-outputs``."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes.core.errors import OnnxPassesError, UsageError
from tests.passes.tools import check, model_of

NET = """g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) <float[3] w = {1, 2, 3}> {
    a = Relu(x)
    b = Mul(a, w)
    y = Neg(b)
    z = Exp(a)
}"""


def returned(model: ir.Model) -> list[str]:
    return [str(value.name) for value in model.graph.outputs]


@pytest.mark.parametrize(
    ("text", "outputs", "nodes"),
    [
        ("add-outputs{names=[b, a]}", ["y", "z", "b", "a"], 4),
        ("drop-outputs{names=[y]}", ["z"], 2),
        ("set-outputs{names=[z, y]}", ["z", "y"], 4),
        ("set-outputs{names=[b, z]}", ["b", "z"], 3),
    ],
)
def test_outputs_are_as_asked_and_held_against_the_same_values_before(text: str, outputs: list[str], nodes: int):
    result = run_pipeline(model_of(NET), text)
    check(result.model)
    assert returned(result.model) == outputs
    assert len(result.model.graph) == nodes
    assert all(str(value.shape) == "[N,3]" for value in result.model.graph.outputs)
    step = next(step for step in result.record.steps if step.name == text.partition("{")[0])
    assert (step.modified, step.evidence.level) == (True, "bits:sampled")


def test_what_follows_keeps_new_outputs_and_is_verified_on_them():
    result = run_pipeline(model_of(NET), "add-outputs{names=[a]}, simplify")
    assert returned(result.model) == ["y", "z", "a"]
    assert result.record.level == "bits:sampled"


@pytest.mark.parametrize("text", ["add-outputs{names=[y]}", "set-outputs{names=[y, z]}"])
def test_what_is_as_asked_is_left_alone(text: str):
    assert not run_pipeline(model_of(NET), text).record.steps[-1].modified


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("add-outputs{names=[c]}", "no value 'c'"),
        ("add-outputs{names=['*']}", "is a pattern, but a full value name is required; it matches 'x', 'w', 'a'"),
        ("add-outputs{names=[x]}", "'x' is an input"),
        ("add-outputs{names=[w]}", "'w' is constant"),
        ("drop-outputs{names=[a]}", "no output 'a'; it has 'y', 'z'"),
        ("drop-outputs{names=[y, z]}", "no output would be left"),
        ("set-outputs{names=[y, y]}", "'y' is named twice"),
    ],
)
def test_refuses(text: str, reason: str):
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(model_of(NET), text)


@pytest.mark.parametrize("name", ["add-outputs", "drop-outputs", "set-outputs"])
def test_something_is_named(name: str):
    with pytest.raises(UsageError, match="no values are named"):
        run_pipeline(model_of(NET), name)
