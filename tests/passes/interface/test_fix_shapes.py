from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import passes
from onnx_passes.core.errors import OnnxPassesError, OptionError, PassFailedError, UsageError
from onnx_passes.core.pipeline import parse_pipeline
from onnx_passes.passes.interface.fix_shapes import FixShapes
from onnx_passes.passes.interface.rename_dimensions import RenameDimensions
from onnx_passes.rewrite.passes import RewriteRulePass
from tests.passes.tools import check, model_of

NET = """g (float[batch, 3, H, W] x, float[batch, 1] s) => (float[M, 3, H, W] y) {
    a = Relu(x)
    y = Concat<axis=0>(a, x)
}"""


def shapes(model) -> list[str]:
    return [str(value.shape) for value in (*model.graph.inputs, *model.graph.outputs)]


def test_a_name_gets_a_size_wherever_it_stands():
    result = run_pipeline(model_of(NET), "fix-shapes{batch=4}")
    check(result.model)
    assert shapes(result.model) == ["[4,3,H,W]", "[4,1]", "[8,3,H,W]"]
    assert str(result.model.graph[0].outputs[0].shape) == "[4,3,H,W]"


def test_the_shape_of_an_input_fixes_its_names_everywhere():
    result = run_pipeline(model_of(NET), "fix-shapes{x=[2, 3, 8, ?]}")
    assert shapes(result.model) == ["[2,3,8,W]", "[2,1]", "[4,3,8,W]"]


def test_all_samples_have_the_sizes_and_every_step_is_verified():
    result = run_pipeline(model_of(NET), "eliminate-identity, fix-shapes{batch=4, H=5, W=6}, cleanup")
    fixed = next(step for step in result.record.steps if step.name == "fix-shapes")
    assert fixed.evidence.level == "bits:sampled"
    assert fixed.evidence.samples >= 3


def test_data_are_taken_apart_as_the_fixed_model_takes_them():
    model = model_of("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")
    data = {"x": np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)}
    result = run_pipeline(model, "fix-shapes{N=1}, cleanup", inputs=[data])
    fixed = next(step for step in result.record.steps if step.name == "fix-shapes")
    assert fixed.evidence.samples == 5


@passes.verify.equality
class BrokenRelu(RewriteRulePass):
    """Replace Relu by Abs, which is wrong."""

    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Abs(x)


def test_a_wrong_pass_behind_it_is_still_caught():
    with pytest.raises(OnnxPassesError, match="not as expected"):
        run_pipeline(model_of(NET), ["fix-shapes{batch=1}", BrokenRelu()])


def test_what_is_fixed_already_is_left_alone():
    result = run_pipeline(model_of(NET), "fix-shapes{batch=4}, fix-shapes{x=[4, 3, ?, ?]}")
    assert [step.modified for step in result.record.steps if step.name == "fix-shapes"] == [True, False]


def test_an_input_without_a_shape_gets_one():
    model = model_of(NET)
    model.graph.inputs[0].shape = None
    FixShapes(sizes={"x": [1, 3, "?", 7]}).call(model)
    assert str(model.graph.inputs[0].shape) == "[1,3,None,7]"


def test_options_print_as_pipeline_text():
    text = str(FixShapes(sizes={"batch size": 1, "x": [1, 3, "?", "?"]}))
    assert text == 'fix-shapes{"batch size"=1, x=[1, 3, ?, ?]}'
    (item,) = parse_pipeline(text)
    assert dict(item.options) == {"batch size": "1", "x": ["1", "3", "?", "?"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fix-shapes{bacth=1}", "no input has a dimension 'bacth'; did you mean 'batch'"),
        ("fix-shapes{z=[1, 2]}", "the model has no input 'z'"),
        ("fix-shapes{x=[1, 3, 8]}", "4 axes"),
        ("fix-shapes{x=[1, 4, 8, 8]}", "3 cannot become 4"),
        ("fix-shapes{batch=1, x=[2, 3, 8, 8]}", "dimension 'batch' cannot be both 1 and 2"),
    ],
)
def test_refuses_what_does_not_fit(text, reason):
    with pytest.raises(PassFailedError, match=reason.replace("[", r"\[")):
        run_pipeline(model_of(NET), text, verify=False)


def test_refuses_what_is_no_size():
    with pytest.raises(UsageError, match="'a' is not a size of 'batch'"):
        run_pipeline(model_of(NET), "fix-shapes{batch=a}")


def test_data_of_other_sizes_are_an_error():
    data = {"x": np.zeros((2, 3, 4, 4), np.float32), "s": np.zeros((2, 1), np.float32)}
    with pytest.raises(UsageError, match="shape"):
        run_pipeline(model_of(NET), "fix-shapes{x=[3, 3, 4, 4]}", inputs=[data])


@pytest.mark.parametrize("name", ["batch size", "größe", "x.1/dim 0", "a b + 1", "1st"])
def test_any_text_with_a_letter_is_a_name(name: str):
    model = model_of("g (float[N, 3] x) => (float[M, 3] y) { a = Relu (x) y = Concat <axis = 0> (a, x) }")
    model.graph.inputs[0].shape = ir.Shape([name, 3])
    result = run_pipeline(model, [FixShapes(sizes={name: 2})])
    assert shapes(result.model) == ["[2,3]", "[4,3]"]
    renamed = run_pipeline(model, [RenameDimensions(names={name: "n"})])
    assert shapes(renamed.model)[0] == "[n,3]"


@pytest.mark.parametrize("name", ["?", "-1"])
def test_what_says_nothing_is_no_name(name: str):
    with pytest.raises(OptionError, match="is not the name of a dimension"):
        FixShapes(sizes={name: 2})
    model = model_of("g (float[N, 3] x) => (float[M, 3] y) { y = Relu (x) }")
    model.graph.inputs[0].shape = ir.Shape([name, 3])
    assert shapes(run_pipeline(model, [FixShapes(sizes={"x": [2, 3]})]).model) == ["[2,3]", "[2,3]"]
