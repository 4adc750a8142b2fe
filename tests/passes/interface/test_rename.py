"""``rename-interface`` and ``rename-dimensions``."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.graph import annotations
from tests.passes.tools import check, model_of, value

NET = """g (float[N, 3] x, float[N, 3] s) => (float[N, 3] y, float[M, 3] z) <float[3] w = {1, 2, 3}> {
    a = Mul(x, w)
    y = Add(a, s)
    z = Concat<axis=0>(y, a)
}"""


def interface(model: ir.Model) -> tuple[list[str], list[str]]:
    return [str(v.name) for v in model.graph.inputs], [str(v.name) for v in model.graph.outputs]


def test_inputs_and_outputs_get_their_names_and_are_verified_under_them():
    result = run_pipeline(model_of(NET), "rename-interface{x=image, z='scores/0'}, simplify")
    check(result.model)
    assert interface(result.model) == (["image", "s"], ["y", "scores/0"])
    assert result.record.steps[0].evidence.level == "bits:sampled"


def test_names_can_be_exchanged():
    result = run_pipeline(model_of(NET), "rename-interface{x=s, s=x}")
    assert interface(result.model)[0] == ["s", "x"]
    assert result.record.level == "bits:sampled"
    assert value(result.model, "a").producer().inputs[0].name == "s"


def test_a_value_inside_makes_way():
    model = model_of(NET)
    annotations.set(value(model, "y"), {"SCALE_TENSOR": "x"})
    result = run_pipeline(model, "rename-interface{x=a}")
    check(result.model)
    assert interface(result.model)[0] == ["a", "s"]
    assert result.model.graph[0].outputs[0].name == "a_1"
    assert annotations.get(value(result.model, "y")) == {"SCALE_TENSOR": "a"}
    assert result.record.level == "bits:sampled"


def test_the_same_name_changes_nothing():
    assert not run_pipeline(model_of(NET), "rename-interface{x=x}").modified


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rename-interface{q=p}", "no input or output 'q'"),
        ("rename-interface{a=p}", "no input or output 'a'"),
        ("rename-interface{x=w}", "'x' cannot become 'w'"),
        ("rename-interface{x=s}", "'x' cannot become 's'"),
        ("rename-interface{x=q, s=q}", "two values would have the same name"),
        ("rename-interface{'*'=q}", "is a pattern"),
        ("rename-dimensions{K=q}", "no value has a dimension 'K'"),
        ("rename-dimensions{N=M}", "'N' cannot become 'M': another dimension has this name"),
        ("rename-dimensions{N='2q'}", "'2q' is not a name for dimension 'N'"),
    ],
)
def test_refuses(text: str, reason: str):
    with pytest.raises(OnnxPassesError, match=reason):
        run_pipeline(model_of(NET), text)


def test_dimensions_get_their_names_wherever_they_stand():
    result = run_pipeline(model_of(NET), "shape-inference, rename-dimensions{N=batch}")
    check(result.model)
    assert [str(v.shape) for v in result.model.graph.inputs] == ["[batch,3]", "[batch,3]"]
    assert str(result.model.graph[0].outputs[0].shape) == "[batch,3]"
    assert "batch" in str(result.model.graph.outputs[1].shape) or str(result.model.graph.outputs[1].shape) == "[M,3]"


def test_dimensions_in_formulas_and_exchanged():
    model = model_of("g (float[N, M] x) => (y) { y = Concat<axis=0>(x, x) }")
    result = run_pipeline(model, "shape-inference, rename-dimensions{N=M, M=N}")
    assert str(result.model.graph.inputs[0].shape) == "[M,N]"
    assert str(result.model.graph.outputs[0].shape) == "[2*M,N]"
