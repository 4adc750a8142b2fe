"""Other floating-point types: what is converted, what stays and why, and what results are held to."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Transformation, passes
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.verify.failure import PostconditionError
from tests.passes.tools import check, model_of, run, value

LAYER = """g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] b = {1, 2}> {
    h = MatMul (x, w) s = Add (h, b) y = Relu (s)
}"""
X = {"x": np.array([[-1.5, 2.0, 0.3], [3, 2.2, 1]], np.float32)}
HALF, SHORT, FLOAT = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT


def convert(text: str, pipeline: str = "convert-float16", opset: int = 21) -> tuple[ir.Model, list[str]]:
    result = onnx_passes.apply(model_of(text, opset=opset), pipeline)
    return result.model, [note for step in result.record.steps for note in step.notes]


def types(model: ir.Model) -> dict[str, ir.DataType | None]:
    return {node.outputs[0].name or "": node.outputs[0].dtype for node in model.graph}


def operators(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def test_a_layer_computes_in_half_precision_between_two_casts():
    model, notes = convert(LAYER)
    assert operators(model) == ["Cast", "MatMul", "Add", "Relu", "Cast"]
    assert {value(model, name).dtype for name in ("h", "s", "w", "b")} == {HALF}
    assert [v.dtype for v in (*model.graph.inputs, *model.graph.outputs)] == [FLOAT, FLOAT]
    assert not notes
    check(model)
    expected = run(model_of(LAYER), X)
    np.testing.assert_allclose(run(model, X)[0], expected[0], rtol=2e-3)


def test_the_interface_is_converted_if_asked():
    model, _ = convert(LAYER, "convert-float16{keep-io=false}")
    assert operators(model) == ["MatMul", "Add", "Relu"]
    assert [v.dtype for v in (*model.graph.inputs, *model.graph.outputs)] == [HALF, HALF]
    check(model)


@pytest.mark.parametrize(
    ("body", "stays", "reason"),
    [
        (
            "c = Constant <value = float {1e6}> () s = Mul (x, c) t = Tanh (s) y = Neg (t)",
            "s",
            "'c' is 1e+06, and float16 ends at",
        ),
        (
            "c = Constant <value = float {1e-12}> () s = Add (x, c) t = Tanh (s) y = Neg (t)",
            "s",
            "which float16 takes for 0",
        ),
        (
            "c = Constant <value = float {30000}> () a = Mul (x, c) s = Mul (a, c) t = Tanh (s) y = Neg (t)",
            "s",
            "and float16 ends at 65504",
        ),
        (
            "n = Constant <value = int64[3] {1, 2, 3}> () s = Cast <to = 1> (n) y = Mul (x, s)",
            "s",
            "positions or sizes",
        ),
        (
            "c = Constant <value = float {0.1}> () z = Constant <value = int8 {0}> ()"
            " q = QuantizeLinear (x, c, z) s = DequantizeLinear (q, c, z) t = Tanh (s) y = Neg (t)",
            "s",
            "its scale would be rounded",
        ),
        (
            "q = SequenceConstruct (x, x) i = Constant <value = int64 {1}> () s = SequenceAt (q, i) y = Tanh (s)",
            "s",
            "sequences and optional values keep their type",
        ),
        ("s = RandomUniformLike <seed = 1.0> (x) o = Sub (s, s) y = Add (x, o)", "s", "it would draw other numbers"),
    ],
)
def test_what_the_type_cannot_hold_stays_and_says_why(body, stays, reason):
    model, notes = convert(f"g (float[2,3] x) => (float[2,3] y) {{ {body} }}")
    assert value(model, stays).dtype is FLOAT
    assert any(reason in note for note in notes), notes
    assert HALF in types(model).values()
    check(model)


def test_an_output_that_the_type_cannot_hold_stays():
    text = "g (float[3] x) => (float[3] y, float[3] z) <float c = {60000}> { y = Mul (x, c) t = Tanh (x) z = Neg (t) }"
    model, notes = convert(text)
    assert any("'y' is 6e+07, and float16 ends at" in note for note in notes), notes
    assert operators(model) == ["Cast", "Mul", "Tanh", "Neg", "Cast"]


def test_numbers_that_become_text_stay():
    model, notes = convert(
        "g (float[3] x) => (string[3] w, float[3] y) { t = Tanh (x) w = Cast <to = 8> (x) y = Neg (t) }"
    )
    assert any("it writes numbers as text" in note for note in notes), notes
    assert value(model, "w").producer().inputs[0].name == "x"
    assert HALF in types(model).values()


def test_what_reads_a_value_of_unknown_type_stays():
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) <float c = {2}> {
        s = ai.onnx.ml.Scaler <offset = [0.0], scale = [2.0]> (x) y = Sub (s, c) t = Tanh (x) z = Neg (t)
    }"""
    result = onnx_passes.apply(model_of(text, opset=21, domains='"ai.onnx.ml" : 3'), "convert-float16")
    notes = [note for step in result.record.steps for note in step.notes]
    assert any("the type of 's' is not known" in note for note in notes), notes
    assert value(result.model, "t").dtype is HALF


def test_masks_of_the_lowest_float_mask_as_before():
    text = """g (float[2,3] x, bool[2,3] m) => (float[2,3] y) <float low = {-3.4028235e38}, float zero = {0}> {
        a = Where (m, zero, low) s = Add (x, a) p = Softmax (s) y = Mul (p, x)
    }"""
    model, _ = convert(text)
    assert {value(model, name).dtype for name in ("a", "s")} == {FLOAT}
    inputs = {**X, "m": np.array([[True, False, True], [False, False, False]])}
    found, expected = run(model, inputs)[0], run(model_of(text), inputs)[0]
    np.testing.assert_allclose(found, expected, rtol=4e-3)


@pytest.mark.parametrize("pattern", ["Add", "second*", "s"])
def test_blocked_nodes_stay(pattern):
    text = LAYER.replace("s = Add", "[second_node] s = Add")
    model, notes = convert(text, f"convert-float16{{block=[{pattern}]}}")
    assert types(model)["s"] is FLOAT
    assert value(model, "h").dtype is HALF
    assert notes == ["1 node as before: it is blocked"]


def test_a_pattern_that_fits_nothing_is_an_error():
    with pytest.raises(OnnxPassesError, match="no node fits 'Addd'"):
        convert(LAYER, "convert-float16{block=[Addd]}")


def test_sums_stay_if_asked():
    text = "g (float[2,3] x) => (float[2,3] y) { e = Tanh (x) s = Softmax (e) y = Neg (s) }"
    model, _ = convert(text, "convert-float16{sums=true}")
    assert (value(model, "e").dtype, value(model, "s").dtype) == (HALF, FLOAT)


def test_coordinates_of_resize_stay():
    text = """g (float[1,1,2,3] x) => (float[1,1,4,6] y) <float[4] s = {1, 1, 2, 2}> { y = Resize (x, , s) }"""
    model, _ = convert(text)
    assert operators(model) == ["Cast", "Resize", "Cast"]
    assert value(model, "s").dtype is FLOAT
    check(model)


def test_constants_that_both_read_are_there_twice():
    text = "g (float[2] x) => (float[2] y) <float[2] c = {3, 4}> { [a] s = Add (x, c) [b] y = Mul (s, c) }"
    model, _ = convert(text, "convert-float16{block=[b]}")
    assert sorted((v.dtype or FLOAT).name for v in model.graph.initializers.values()) == ["FLOAT", "FLOAT16"]
    check(model)


def test_types_that_nodes_name_follow():
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) {
        s = Shape (x) o = ConstantOfShape <value = float[1] {0.5}> (s) y = Add (x, o)
        b = Cast <to = 9> (x) f = Cast <to = 1> (b) z = Mul (f, x)
    }"""
    model, _ = convert(text)
    assert {value(model, name).dtype for name in ("o", "f")} == {HALF}
    check(model)


def test_subgraphs_keep_their_interface_and_convert_inside():
    text = """g (float[2,3] x, bool c) => (float[2,3] y) <float[3] w = {1, 2, 3}> {
        h = Mul (x, w)
        y = If (c) <then_branch = t () => (float[2,3] a) { i = Exp (h) a = Mul (i, w) },
                    else_branch = e () => (float[2,3] b) { b = Neg (h) }>
    }"""
    model, _ = convert(text)
    inner = [node for graph in model.graph.subgraphs() for node in graph]
    assert sorted(node.op_type for node in inner) == ["Cast", "Cast", "Exp", "Mul", "Neg"]
    assert {node.outputs[0].dtype for node in inner if node.op_type != "Cast"} == {HALF}
    check(model)
    for condition in (True, False):
        inputs = {**X, "c": np.array(condition)}
        np.testing.assert_allclose(run(model, inputs)[0], run(model_of(text), inputs)[0], rtol=1e-2)


def test_calls_of_functions_stay():
    text = """<ir_version: 10, opset_import: ["" : 21, "q" : 1]>
    g (float[2,3] x) => (float[2,3] y) { h = q.F (x) y = Tanh (h) }
    <opset_import: ["" : 21], domain: "q"> F (a) => (b) { b = Relu (a) }"""
    result = onnx_passes.apply(ir.from_onnx_text(text), "convert-float16")
    assert result.record.steps[0].notes == ["1 node as before: it calls a function: inline-functions first"]
    assert value(result.model, "h").dtype is FLOAT


def test_nodes_that_nobody_knows_stay():
    text = """<ir_version: 10, opset_import: ["" : 21, "q" : 1]>
    g (float[2,3] x) => (float[2,3] y) { h = q.F (x) y = Tanh (h) }"""
    result = onnx_passes.apply(ir.from_onnx_text(text), "convert-float16", verify=False)
    assert "1 node as before: nothing is known of its operator" in result.record.steps[0].notes


def test_halves_inside_are_rounded_whatever_the_interface():
    text = """g (float[2,3] x) => (float[2,3] y) {
        c = Constant <value = float {0.1}> () a = Mul (x, c) b = Tanh (a) y = Mul (b, c)
    }"""
    evidence = onnx_passes.apply(model_of(text, opset=21), "convert-float16").record.steps[0].evidence
    assert evidence.level == "tolerance:sampled"
    assert 0 < evidence.max_abs < 2**-10


def test_outputs_that_show_nothing_are_named():
    text = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) <float none = {0}> {
        h = Tanh (x) n = Mul (h, none) a = Abs (n) y = Exp (a) z = Neg (h) }"""
    _, notes = convert(text)
    assert "'y' is 1 in all samples, which shows little: give data with --inputs" in notes


def test_the_way_back_leaves_no_half_and_no_cast():
    model, _ = convert(LAYER, "convert-float16, convert-float32")
    assert operators(model) == ["MatMul", "Add", "Relu"]
    assert {v.dtype for node in model.graph for v in node.outputs} == {FLOAT}
    np.testing.assert_array_equal(
        value(model, "w").const_value.numpy(), np.float32(np.float16([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]))
    )
    halves, _ = convert(LAYER, "convert-float16{keep-io=false}, convert-float32")
    assert [v.dtype for v in (*halves.graph.inputs, *halves.graph.outputs)] == [FLOAT, FLOAT]


def test_bfloat16_is_rounded_after_every_operation():
    model, _ = convert(LAYER, "convert-bfloat16", opset=22)
    assert {value(model, name).dtype for name in ("h", "s", "w")} == {SHORT}
    from onnx_passes.verify.run.execute import Executor

    def rounded(array: np.ndarray) -> np.ndarray:
        return array.astype(ml_dtypes.bfloat16).astype(np.float32)

    weights = rounded(np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], np.float32))
    expected = np.maximum(rounded(rounded(rounded(X["x"]) @ weights) + np.array([1, 2], np.float32)), 0)
    found = Executor().prepare(model, engine="onnxruntime").run(X)["y"]
    np.testing.assert_array_equal(found, expected)


def test_operators_without_the_type_in_this_opset_say_so():
    text = "g (float[1,1,3,3] x) => (float[1,1,3,3] y) <float[1,1,1,1] w = {2}> { h = Conv (x, w) y = Relu (h) }"
    _, notes = convert(text, "convert-bfloat16", opset=21)
    assert notes[0] == "1 node as before: Conv does not take bfloat16 in opset 21"
    assert operators(convert(text, "convert-bfloat16", opset=22)[0]) == ["Cast", "Conv", "Relu", "Cast"]


def test_what_follows_is_held_to_the_results_in_the_new_type():
    model, _ = convert(LAYER, "convert-float16, simplify, fold-constants")
    assert value(model, "w").dtype is HALF


def test_more_than_the_type_explains_is_found():
    @passes.verify.tolerance(atol=2**-10, rtol=2**-7, unit=2**-10)
    class ScalesByMistake(Transformation):
        """Change a weight."""

        def call(self, model: ir.Model) -> ir.passes.PassResult:
            weight = model.graph.initializers["w"]
            weight.const_value = ir.Tensor(1.1 * weight.const_value.numpy())
            return ir.passes.PassResult(model, modified=True)

    with pytest.raises(PostconditionError, match="rounding alone does not move the original's outputs so far"):
        onnx_passes.apply(model_of(LAYER), [ScalesByMistake()])
