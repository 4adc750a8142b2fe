from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import run_model
from onnx_passes.core.errors import OnnxPassesError, OptionError, PassFailedError
from onnx_passes.graph import annotations
from onnx_passes.passes.layout.convert_layouts import ConvertLayouts
from tests.passes.tools import apply, check, model_of, operators, run

CONV = """g (float[N, 3, 8, 9] x, float[4, 3, 3, 3] w) => (float[N, 4, 6, 7] y) {
    c = Conv(x, w)
    y = Relu(c)
}"""


def model_and_sample() -> tuple[ir.Model, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    sample = {"x": rng.normal(size=(2, 3, 8, 9)), "w": rng.normal(size=(4, 3, 3, 3))}
    return model_of(CONV), {name: array.astype(np.float32) for name, array in sample.items()}


def convert(model: ir.Model, **options: object) -> ConvertLayouts:
    """Convert as a pipeline does, without the check that the interface stays."""
    pass_ = ConvertLayouts(**options)
    assert pass_.call(model).modified
    assert not ConvertLayouts(**options).call(model).modified
    check(model)
    return pass_


def test_takes_and_returns_images_with_channels_last():
    model, sample = model_and_sample()
    before = run(model, sample)
    pass_ = convert(model, inp=["NHWC>NCHW"], out=["NCHW>NHWC"])
    assert [str(v.shape) for v in model.graph.inputs] == ["[N,8,9,3]", "[4,3,3,3]"]
    assert str(model.graph.outputs[0].shape) == "[N,6,7,4]"
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == ["x", "w", "y"]
    assert operators(model.graph) == ["Transpose", "Conv", "Relu", "Transpose"]
    changed = pass_.inputs_after(sample)
    assert changed["x"].shape == (2, 8, 9, 3)
    wanted = pass_.outputs_after({"y": before[0]})
    np.testing.assert_array_equal(run(model, changed)[0], wanted["y"])


@pytest.mark.parametrize("given", [{"assumes": "NHWC", "perm": [0, 3, 1, 2]}, "NHWC>NCHW", "0312"])
def test_all_spellings_mean_the_same(given):
    model, _ = model_and_sample()
    convert(model, inp=[given])
    assert str(model.graph.inputs[0].shape) == "[N,8,9,3]"
    assert list(model.graph[0].attributes["perm"].as_ints()) == [0, 3, 1, 2]


def test_options_print_as_pipeline_text():
    pass_ = ConvertLayouts(inp=[{"assumes": "NHWC", "perm": [0, 3, 1, 2]}, None], out=["0231"])
    assert str(pass_) == "convert-layouts{inp=[NHWC>NCHW, -], out=[0231]}"
    result = run_pipeline(model_of(CONV), "convert-layouts{inp=[NHWC>NCHW]}", verify=False)
    assert str(result.model.graph.inputs[0].shape) == "[N,8,9,3]"


def test_leaves_what_is_marked_to_stay():
    model, _ = model_and_sample()
    pass_ = convert(model, inp=["-", "OHWI>OIHW"])
    assert pass_.inp == ("-", "OHWI>OIHW")
    assert [str(v.shape) for v in model.graph.inputs] == ["[N,3,8,9]", "[4,3,3,3]"]
    assert operators(model.graph) == ["Transpose", "Conv", "Relu"]


def test_nothing_to_do():
    assert not apply(ConvertLayouts(), model_of(CONV))


def test_all_readers_of_an_input_read_it_as_before_also_inside_bodies():
    model = model_of("""g (bool c, float[2, 3] x) => (float[2, 3] y, float[2, 3] z) {
        y = If (c) <then_branch = t () => (float[2, 3] p) { p = Neg(x) },
                    else_branch = e () => (float[2, 3] q) { q = Abs(x) }>
        z = Relu(x)
    }""")
    feeds = {"c": np.array(True), "x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    before = run(model, feeds)
    pass_ = convert(model, inp=["-", "10"])
    after = run(model, pass_.inputs_after(feeds))
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_an_output_that_is_used_inside_stays_as_it_is_there():
    model = model_of("g (float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { y = Relu(x)  z = Neg(y) }")
    feeds = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
    y, z = run(model, feeds)
    convert(model, out=["10"])
    after = run(model, feeds)
    np.testing.assert_array_equal(after[0], y.T)
    np.testing.assert_array_equal(after[1], z)


def test_annotations_hold_on_both_sides():
    model = model_of("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    annotations.set(model.graph.inputs[0], {"finn_datatype": "INT4"})
    convert(model, inp=["10"])
    assert (
        annotations.get(model.graph.inputs[0])
        == annotations.get(model.graph[0].outputs[0])
        == {"finn_datatype": "INT4"}
    )


def test_inputs_with_a_default_are_not_counted():
    model = model_of("g (float[2, 1] w, float[2, 3] x) => (float[2, 3] y) <float[2, 1] w = {1., 2.}> { y = Add(x, w) }")
    convert(model, inp=["10"])
    assert str(model.graph.inputs[1].shape) == "[3,2]"


@pytest.mark.parametrize(
    "given", ["NHWC>NCHX", "0113", "x", {"perm": 3}, {"assumes": "NC", "perm": [0, 1, 2]}, {"prem": [0]}, "NN>NN"]
)
def test_refuses_what_is_no_layout(given):
    with pytest.raises(OptionError, match="is not a change of layout"):
        ConvertLayouts(inp=[given])


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        (CONV, {"inp": ["10"]}, "input 'x' of rank 4 cannot be changed by 10"),
        (CONV, {"inp": ["-", "-", "10"]}, "layouts of 3 inputs are given, the model has 2"),
        ("g (float[2, 3] x) => (float[2, 3] x) { }", {"inp": ["10"]}, "is also an output"),
        ("g (float[2, 3] x) => (y) { y = Relu(x) }", {"out": ["10"]}, "unknown rank"),
    ],
)
def test_refuses_what_does_not_fit_and_leaves_the_model_alone(text, options, reason):
    model = model_of(text)
    before = str(model.graph)
    with pytest.raises(PassFailedError, match=reason) as refused:
        ConvertLayouts(**options).call(model)
    assert isinstance(refused.value, OnnxPassesError)
    assert str(model.graph) == before


def test_converters_at_the_interface_leave_it_as_it_is():
    model, sample = model_and_sample()
    before = run(model, sample)
    pass_ = convert(model, inp=["NCHW>NHWC"], out=["NCHW>NHWC"], keep_interface=True)
    assert [str(v.shape) for v in (*model.graph.inputs, *model.graph.outputs)] == [
        "[N,3,8,9]",
        "[4,3,3,3]",
        "[N,4,6,7]",
    ]
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == ["x", "w", "y"]
    assert operators(model.graph) == ["LayoutConverter", "Transpose", "Conv", "Relu", "LayoutConverter", "Transpose"]
    assert pass_.inputs_after(sample).keys() == sample.keys()
    np.testing.assert_array_equal(run_model(model, sample)["y"], before[0])
    assert run_pipeline(model_of(CONV), str(pass_)).record.modified


def test_converters_need_letters():
    with pytest.raises(OptionError, match="names no axes"):
        ConvertLayouts(inp=["0231"], keep_interface=True)
    assert ConvertLayouts(inp=["-"], keep_interface=True).inp == ("-",)
