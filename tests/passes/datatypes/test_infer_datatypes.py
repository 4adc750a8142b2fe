"""Data types are carried through the graph; ONNX Runtime is asked whether the results really fit."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.core.base import Context
from onnx_passes.core.errors import ModelError, OnnxPassesError
from onnx_passes.datatypes import FLOAT32, parse
from onnx_passes.graph import annotations
from onnx_passes.graph.hashing.fingerprint import full_hash, structural_hash
from onnx_passes.graph.load import load
from onnx_passes.graph.tensor_types import datatype_of, set_datatype
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.datatypes.check_datatypes import CheckDatatypes
from onnx_passes.passes.datatypes.infer_datatypes import InferDatatypes
from tests.helpers.random_models import random_model
from tests.helpers.small_models import files
from tests.passes.test_damaged_models import damage
from tests.passes.tools import apply, model_of, notes_of, value

QONNX = '"qonnx.custom_op.general" : 1'


def settle(pass_: InferDatatypes, model: ir.Model) -> None:
    """Run a pass twice: it says truly whether it changed something, and no second time."""
    structure, before = structural_hash(model), full_hash(model)
    assert pass_.call(model).modified == (full_hash(model) != before)
    assert not pass_.call(model).modified
    assert structural_hash(model) == structure


def infer(model: ir.Model, *, allow_scaledint: bool = False, **declared: str) -> dict[str, str]:
    """Declare the types of some values, infer, and return all types by name; what can be executed must fit."""
    for name, datatype in declared.items():
        set_datatype(value(model, name), datatype)
    ShapeInference().run(model, Context())
    settle(InferDatatypes(allow_scaledint=allow_scaledint), model)
    checked = CheckDatatypes().analyze(model)
    assert checked["results"] or all(
        datatype_of(output) in (FLOAT32, None) for node in model.graph for output in node.outputs
    ), "nothing was executed"
    return {str(v.name): str(datatype_of(v)) for v in annotations.values(model.graph) if datatype_of(v) is not None}


def types(body: str, inputs: str = "float[2, 4] x", *, domains: str = "", opset: int = 18, **declared: str):
    return infer(model_of(f"g ({inputs}) => (float[] y) {body}", domains=domains, opset=opset), **declared)


@pytest.mark.parametrize(
    ("node", "x", "expected"),
    [
        ("Relu (x)", "INT4", "UINT3"),
        ("Relu (x)", "UINT4", "UINT4"),
        ("Neg (x)", "INT4", "INT5"),
        ("Neg (x)", "BIPOLAR", "BIPOLAR"),
        ("Abs (x)", "INT4", "UINT4"),
        ("Sign (x)", "INT4", "TERNARY"),
        ("Sign (x)", "FLOAT32", "TERNARY"),
        ("Sign (x)", "UINT4", "BINARY"),
        ("Add (x, x)", "INT4", "INT5"),
        ("Sub (x, x)", "UINT4", "INT5"),
        ("Mul (x, x)", "INT4", "UINT7"),
        ("Mul (x, x)", "BIPOLAR", "BIPOLAR"),
        ("Sum (x, x, x)", "UINT2", "UINT4"),
        ("Sigmoid (x)", "INT4", "FLOAT32"),
        ("Div (x, x)", "INT4", "FLOAT32"),
        ("Softmax (x)", "UINT4", "FLOAT32"),
        ("Transpose (x)", "FIXED<8,4>", "FIXED<8,4>"),
        ("Flatten (x)", "SCALEDINT<4>", "FLOAT32"),
        ("Round (x)", "INT4", "INT4"),
        ("Round (x)", "FLOAT32", "FLOAT32"),
        ("ReduceSum (x)", "BIPOLAR", "INT5"),
        ("ReduceSum <keepdims = 0> (x)", "UINT4", "UINT7"),
        ("ReduceMax (x)", "INT4", "INT4"),
        ("ReduceMean (x)", "INT4", "FLOAT32"),
        ("Identity (x)", "TERNARY", "TERNARY"),
        ("Cast <to = 10> (x)", "INT4", "INT4"),
        ("Dropout (x)", "INT4", "INT4"),
        ("Trilu (x)", "BIPOLAR", "TERNARY"),
        ("Trilu (x)", "INT4", "INT4"),
    ],
)
def test_one_operator(node: str, x: str, expected: str):
    assert types(f"{{ y = {node} }}", x=x)["y"] == expected


@pytest.mark.parametrize(
    ("node", "x", "expected"),
    [
        ("Clip (x, lo, hi)", "INT8", "INT3"),
        ("Clip (x, lo)", "INT8", "INT8"),
        ("Clip (x, lo, hi)", "BINARY", "BINARY"),
        ("Clip (x, half, hi)", "INT8", "FLOAT32"),
        ("Clip (x, lo, far)", "UINT4", "UINT4"),
        ("Pad (x, pads)", "INT4", "INT4"),
        ("Pad (x, pads)", "BIPOLAR", "TERNARY"),
        ("Pad (x, pads, hi)", "BINARY", "UINT2"),
        ("Pad (x, pads, half)", "BINARY", "FLOAT32"),
        ('Pad <mode = "edge"> (x, pads)', "BIPOLAR", "BIPOLAR"),
        ("Add (x, hi)", "INT4", "INT5"),
        ("Mul (x, half)", "INT4", "FLOAT32"),
        ("Max (x, lo)", "INT8", "INT8"),
        ("Min (x, hi)", "UINT8", "UINT2"),
    ],
)
def test_constants_count_with_their_values(node: str, x: str, expected: str):
    constants = "<float lo = {-3}, float hi = {3}, float half = {0.5}, float far = {99.5}, int64[4] pads = {1,0,0,1}>"
    model = model_of(f"g (float[2, 4] x) => (float[] y) {constants} {{ y = {node} }}")
    assert infer(model, x=x)["y"] == expected


def test_concatenated_tensors_are_joined():
    """Other tools take the type of the first one, and clip thresholds by it."""
    body = "{ a = Concat <axis = 0> (x, z) b = Concat <axis = 0> (x, x) y = Concat <axis = 0> (a, b) }"
    found = types(body, "float[2, 4] x, float[2, 4] z", x="UINT2", z="INT4")
    assert (found["a"], found["b"], found["y"]) == ("INT4", "UINT2", "INT4")
    assert types(body, "float[2, 4] x, float[2, 4] z", x="INT4")["a"] == "FLOAT32"
    assert types(body, "float[2, 4] x, float[2, 4] z", x="UINT4", z="INT4")["a"] == "INT5"


def test_annotates_and_nothing_else():
    model = model_of("g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }")
    assert apply(InferDatatypes(), model)
    assert [str(datatype_of(value(model, name))) for name in "xay"] == ["None", "FLOAT32", "FLOAT32"]


def test_stale_types_after_a_rewrite_are_corrected():
    """A summand that was scaled keeps its old type in other tools, and their executor refuses the model."""
    model = model_of(
        "g (float[4] x) => (float[4] y) <float[4] c = {0.25, 1, 2, 3}, float[4] d = {99, 1, 2, 3}>"
        "{ a = Add (x, c) y = Add (a, d) }"
    )
    for name in ("x", "a", "c", "d"):
        set_datatype(value(model, name), "INT6")
    assert notes_of(InferDatatypes(), model) == [
        "corrected 3 data types that may not hold all results, first 'c' is FLOAT32, not INT6"
    ]
    assert {n: str(datatype_of(value(model, n))) for n in "xacdy"} == {
        "x": "INT6",
        "a": "FLOAT32",
        "c": "FLOAT32",
        "d": "UINT7",
        "y": "FLOAT32",
    }
    CheckDatatypes().analyze(model)


def test_a_type_that_is_too_wide_is_replaced():
    model = model_of("g (float[4] x) => (float[4] y) { a = Relu (x) y = Neg (a) }")
    set_datatype(value(model, "x"), "INT4")
    set_datatype(value(model, "a"), "INT32")
    assert notes_of(InferDatatypes(), model) == ["replaced 1 data type by a more precise one"]
    assert datatype_of(value(model, "a")) == parse("UINT3")


def test_what_is_declared_of_inputs_and_fitting_constants_stays():
    model = model_of(
        "g (float[2] x, float[2] u) => (float[2] y) <float[2] c = {1, 2}> { a = Add (x, c) y = Add (a, u) }"
    )
    found = infer(model, x="INT3", c="INT8")
    assert (found["x"], found["c"]) == ("INT3", "INT8")
    assert "u" not in found
    assert found["a"] == "INT4", "the range of the numbers counts, not that of their type"


def test_integer_constants_get_the_smallest_type():
    found = types(
        "<float[2, 2] b = {-1, 1, 1, -1}, float[2, 2] t = {-1, 0, 1, -1}, float[2, 2] f = {0.5, 1, 2, 3}>"
        "{ p = Mul (x, b) q = Mul (p, t) y = Mul (q, f) }",
        "float[2, 2] x",
        x="BIPOLAR",
    )
    assert (found["b"], found["t"], found["p"], found["q"]) == ("BIPOLAR", "TERNARY", "BIPOLAR", "TERNARY")
    assert "f" not in found
    assert found["y"] == "FLOAT32"


def test_float_says_nothing_of_integer_constants():
    model = model_of(
        "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}, float[2] d = {1, 0.5}> { a = Add (x, c) y = Mul (a, d) }"
    )
    found = infer(model, x="INT3", c="FLOAT32", d="FLOAT32", a="FLOAT32")
    assert (found["c"], found["d"], found["a"], found["y"]) == ("UINT2", "FLOAT32", "INT4", "FLOAT32")


def test_constant_nodes_are_constants_too():
    found = types("{ c = Constant <value = float[2] {3, 4}> () y = Add (x, c) }", "float[2] x", x="UINT2")
    assert (found["c"], found["y"]) == ("UINT3", "UINT3")


def test_shapes_and_indices_get_no_type():
    found = types("<int64[1] s = {8}> { i = Shape (x) j = Add (i, i) y = Reshape (x, s) }", x="INT4")
    assert found == {"x": "INT4", "y": "INT4"}


def test_weights_that_a_caller_may_override_are_not_looked_at():
    model = model_of("g (float[2] x, float[2] c = {1, 2}) => (float[2] y) { y = Add (x, c) }")
    assert infer(model, x="INT4")["y"] == "FLOAT32"


@pytest.mark.parametrize(
    ("x", "expected"),
    # Column sums of positive and negative weights are (3, -1), (1, -2) and (4, 0).
    [("UINT2", "INT5"), ("BIPOLAR", "INT4"), ("INT4", "INT6"), ("FLOAT32", "FLOAT32")],
)
def test_products_with_weights_are_as_narrow_as_their_columns_allow(x: str, expected: str):
    body = "<float[3, 3] w = {1, 1, 1, 2, -1, 1, -1, -1, 2}> { y = MatMul (x, w) }"
    assert types(body, "float[2, 3] x", x=x)["y"] == expected
    transposed = "<float[3, 3] w = {1, 2, -1, 1, -1, -1, 1, 1, 2}> { y = MatMul (w, x) }"
    assert types(transposed, "float[3, 2] x", x=x)["y"] == expected
    gemm = "<float[3, 3] w = {1, 2, -1, 1, -1, -1, 1, 1, 2}> { y = Gemm <transB = 1> (x, w) }"
    assert types(gemm, "float[2, 3] x", x=x)["y"] == expected
    vector = "<float[3] w = {1, 2, 1}> { y = MatMul (x, w) }"
    assert types(vector, "float[2, 3] x", x=x)["y"] == {"UINT2": "UINT4", "INT4": "INT6"}.get(x, expected)


def test_products_of_two_results_count_their_terms():
    found = types("{ y = MatMul (x, z) }", "float[2, 100] x, float[100, 3] z", x="BIPOLAR", z="UINT2")
    assert found["y"] == "INT10"
    assert types("{ y = MatMul (x, z) }", "float[2, N] x, float[N, 3] z", x="BIPOLAR", z="UINT2")["y"] == "FLOAT32"
    model = model_of("g (float[2, N] x, float[100, 3] z) => (float[2, 3] y) { y = MatMul (x, z) }")
    set_datatype(value(model, "x"), "BIPOLAR")
    set_datatype(value(model, "z"), "UINT2")
    settle(InferDatatypes(), model)
    assert datatype_of(value(model, "y")) == parse("INT10")


@pytest.mark.parametrize(
    ("attributes", "bias", "x", "expected"),
    [
        ("", "", "UINT2", "INT4"),  # 3 * 2 to 3 * -2
        ("<pads = [1, 1, 1, 1]>", "", "UINT2", "INT4"),
        ("", "b", "UINT2", "INT5"),  # 10 more in the second channel
        ("", "", "BIPOLAR", "INT4"),
        ('<auto_pad = "SAME_UPPER">', "", "INT2", "INT4"),
    ],
)
def test_convolutions_are_as_narrow_as_their_channels_allow(attributes: str, bias: str, x: str, expected: str):
    inputs = f"x, w{', b' if bias else ''}"
    body = (
        "<float[2, 1, 2, 2] w = {1, 1, -1, -1, 0, -1, 1, -1}, float[2] b = {0, 10}>"
        f"{{ y = Conv {attributes} ({inputs}) }}"
    )
    assert types(body, "float[1, 1, 4, 4] x", x=x)["y"] == expected


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("", "UINT4"),
        ("<pads = [0, 1, 0, 1]>", "INT5"),
        ('<auto_pad = "SAME_UPPER">', "INT5"),
        ('<auto_pad = "VALID">', "UINT4"),
    ],
)
def test_zeros_around_an_image_count(attributes: str, expected: str):
    """The image itself is never 0: from 4 - 3 to 12 - 1 without zeros, from 0 - 3 to 12 - 0 with them."""
    body = "<float[1, 1, 1, 2] w = {4, -1}, float one = {1}> { a = Max (x, one) y = Conv %s (a, w) }"
    assert types(body % attributes, "float[1, 1, 3, 3] x", x="UINT2")["y"] == expected


def test_integers_wrap_around_in_their_element_type():
    model = model_of(
        "g (int8[4] x) => (int8[4] y) <int8[1] c = {1}, int8[1] d = {127}> { a = Add (x, c) y = Add (x, d) }"
    )
    found = infer(model, x="INT4")
    assert (found["a"], found["y"]) == ("INT5", "INT8")
    model = model_of("g (uint8[4] x) => (uint8[4] y) { y = Sub (x, x) }")
    assert infer(model)["y"] == "UINT8"


def test_large_sums_are_remarked():
    model = model_of("g (float[1, 4096] x, float[4096, 1] w) => (float[1, 1] y) { y = MatMul (x, w) }")
    weights = model.graph.inputs.pop()
    weights.const_value = ir.Tensor(np.full((4096, 1), 255, np.float32), name="w")
    model.graph.register_initializer(weights)
    set_datatype(value(model, "x"), "UINT12")
    # 4096 * 255 * 4095 needs 32 bits.
    assert notes_of(InferDatatypes(), model) == [
        "1 sum may exceed the integers that floats hold exactly, first 'y'",
    ]
    assert datatype_of(value(model, "y")) == parse("UINT32")
    CheckDatatypes().analyze(model)


def test_sums_that_cancel_are_inexact_as_well():
    model = model_of(
        "g (float[1, 4] x) => (float[1, 1] y) <float[4, 1] w = {1, 1, -1, -1}, float lo = {16777215}>"
        "{ a = Max (x, lo) y = MatMul (a, w) }"
    )
    set_datatype(value(model, "x"), "UINT24")
    assert any("may exceed" in note for note in notes_of(InferDatatypes(), model))


def test_branches_are_joined():
    found = types(
        "{ y = If (c) <then_branch = a () => (float[2, 4] p) { p = Relu (x) },"
        " else_branch = b () => (float[2, 4] q) { q = Neg (x) }> }",
        "float[2, 4] x, bool c",
        x="INT4",
    )
    assert (found["p"], found["q"], found["y"]) == ("UINT3", "INT5", "INT5")


def test_every_part_of_a_split_has_the_type():
    model = model_of("g (float[4] x) => (float[2] y, float[2] z) { y, z = Split <num_outputs = 2> (x) }")
    found = infer(model, x="INT4")
    assert (found["y"], found["z"]) == ("INT4", "INT4")


def test_pooling():
    image = "float[1, 1, 4, 4] x"
    assert types("{ y = MaxPool <kernel_shape = [2, 2]> (x) }", image, x="INT4")["y"] == "INT4"
    assert types("{ y = AveragePool <kernel_shape = [2, 2]> (x) }", image, x="INT4")["y"] == "FLOAT32"
    assert types("{ y = GlobalMaxPool (x) }", image, x="UINT2")["y"] == "UINT2"


def test_dequantized_integers():
    constants = "<float one = {1}, float half = {0.5}, uint8 zero = {128}>"
    inputs = "uint8[4] x"
    assert types(f"{constants} {{ y = DequantizeLinear (x, one, zero) }}", inputs)["y"] == "INT8"
    assert types(f"{constants} {{ y = DequantizeLinear (x, half, zero) }}", inputs)["y"] == "FLOAT32"


def quantized(node: str, constants: str = "", declared: str = "FLOAT32", *, allow_scaledint: bool = False) -> str:
    """Infer the type of one operator of QONNX; it need not be executable."""
    usual = "float one = {1}, float half = {0.5}, float zero = {0}, float four = {4}, float bit = {1}"
    known = f"{usual}, {constants}" if constants else usual
    model = model_of(
        f"g (float[2, 4] x) => (float[2, 4] y) <{known}> {{ y = qonnx.custom_op.general.{node} }}", domains=QONNX
    )
    set_datatype(value(model, "x"), declared)
    settle(InferDatatypes(allow_scaledint=allow_scaledint), model)
    return str(datatype_of(value(model, "y")))


# As qonnx 1.0 infers, but for Trunc, of which it says nothing.
@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Quant <signed = 1, narrow = 0> (x, one, zero, four)", "INT4"),
        ("Quant <signed = 1, narrow = 1> (x, one, zero, four)", "INT4"),
        ("Quant <signed = 0, narrow = 0> (x, one, zero, four)", "UINT4"),
        ("IntQuant <signed = 1, narrow = 0> (x, one, zero, four)", "INT4"),
        ("Quant <signed = 1, narrow = 0> (x, one, zero, bit)", "BIPOLAR"),
        ("Quant <signed = 0, narrow = 0> (x, one, zero, bit)", "BINARY"),
        ("Quant <signed = 1, narrow = 0> (x, half, zero, four)", "FLOAT32"),
        ("Quant <signed = 1, narrow = 0> (x, one, half, four)", "FLOAT32"),
        ("BipolarQuant (x, one)", "BIPOLAR"),
        ("BipolarQuant (x, half)", "FLOAT32"),
        ("FloatQuant <saturation = 1> (x, one, four, three, seven, most)", "FLOAT<4,3,7>"),
        ("FloatQuant <saturation = 0, has_inf = 1> (x, one, four, three, seven, most)", "FLOAT32"),
        ("FloatQuant <saturation = 1> (x, half, four, three, seven, most)", "FLOAT32"),
        ("FloatQuant <saturation = 1> (x, one, four, three, zero, most)", "FLOAT32"),
        ("Trunc (x, one, zero, six, one, four)", "INT4"),
        ("Trunc (x, one, zero, six, half, four)", "FLOAT32"),
        ("Trunc (x, one, zero, six, four)", "FLOAT32"),
    ],
)
def test_quantizers(node: str, expected: str):
    more = "float three = {3}, float six = {6}, float seven = {7}, float most = {480}"
    assert quantized(node, more) == expected


@pytest.mark.parametrize(("bits", "expected"), [("{4, 8}", "INT8"), ("{1, 1}", "BIPOLAR"), ("{1, 3}", "INT3")])
def test_several_bit_widths(bits: str, expected: str):
    node = "Quant <signed = 1, narrow = 0> (x, one, zero, bits)"
    assert quantized(node, f"float[2, 1] bits = {bits}") == expected


@pytest.mark.parametrize(("bits", "expected"), [(24, "INT24"), (25, "INT25"), (32, "INT33")])
def test_a_quantizer_may_round_its_ends_away(bits: int, expected: str):
    """In floats the largest integer of 32 bits is 2**31, which has one bit more."""
    assert quantized("Quant <signed = 1, narrow = 0> (x, one, zero, b)", f"float b = {{{bits}}}") == expected


def test_truncated_integers_are_divided():
    node = "Trunc (x, one, zero, six, four)"
    assert quantized(node, "float six = {6}") == "FLOAT32"
    assert quantized(node, "float six = {6}", "INT6") == "INT4"
    up = 'Trunc <rounding_mode = "CEIL"> (x, one, zero, six, four)'
    assert quantized(up, "float six = {6}", "INT6") == "INT5", "31 / 4 is rounded up to 8"


def test_scaled_integers_are_named_on_demand():
    node = "Quant <signed = 1, narrow = 0> (x, half, zero, four)"
    assert quantized(node, allow_scaledint=True) == "SCALEDINT<4>"
    model = model_of(
        "g (float[2, 4] x) => (float[2, 2] y) <float half = {0.5}, float zero = {0}, float four = {4},"
        " float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}>"
        "{ q = qonnx.custom_op.general.Quant (x, half, zero, four) y = MatMul (q, w) }",
        domains=QONNX,
    )
    settle(InferDatatypes(allow_scaledint=True), model)
    assert datatype_of(value(model, "y")) == parse("SCALEDINT<32>"), "as QONNX says"


def test_narrow_quantizers_give_narrow_ranges():
    model = model_of(
        "g (float[2, 9] x) => (float[2, 1] y) <float one = {1}, float zero = {0}, float two = {2},"
        " float[9, 1] w = {1, 1, 1, 1, 1, 1, 1, 1, -1}>"
        "{ q = qonnx.custom_op.general.Quant <signed = 1, narrow = 1> (x, one, zero, two) y = MatMul (q, w) }",
        domains=QONNX,
    )
    settle(InferDatatypes(), model)
    assert datatype_of(value(model, "q")) == parse("INT2")
    assert datatype_of(value(model, "y")) == parse("INT5"), "-9 to 9, where all of INT2 would reach -17"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('out_dtype = "UINT2"', "UINT2"),
        ('out_dtype = "UINT4"', "UINT2"),
        ('out_dtype = "INT4", out_bias = -2.0', "INT2"),
        ('out_dtype = "INT2"', "UINT2"),  # the three thresholds are counted, and 2 and 3 are no INT2
        ('out_dtype = "BIPOLAR", out_scale = 2.0, out_bias = -1.0', "INT4"),
        ('out_dtype = "FLOAT32", out_scale = 0.5', "FLOAT32"),
        ('out_dtype = "UINT2", out_bias = 0.5', "FLOAT32"),
        ('out_dtype = "FLOAT32"', "UINT2"),
    ],
)
def test_thresholds_are_counted(attributes: str, expected: str):
    assert quantized(f"MultiThreshold <{attributes}> (x, t)", "float[1, 3] t = {0.5, 1, 2}") == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [("1, 1, 1", "INT3"), ("-1, -2, 1", "INT3"), ("4, 4, -1", "INT4"), ("0.5, 1, 1", "FLOAT32")],
)
def test_weights_of_thresholds_are_added_up(weights: str, expected: str):
    model = model_of(
        f"g (float[2] x) => (float[2] y) <float[3] t = {{0.5, 1, 2}}, float[3] w = {{{weights}}}>"
        "{ y = onnx_passes.MultiThreshold <out_bias = -1.0> (x, t, w) }",
        domains='"onnx_passes" : 1',
    )
    settle(InferDatatypes(), model)
    found = datatype_of(value(model, "y"))
    sums = -1 + np.array([0, *np.cumsum([float(weight) for weight in weights.split(",")])])
    assert found is not None
    assert bool(found.allowed(sums).all())
    assert str(found) == expected


def test_one_threshold_may_be_bipolar():
    node = 'MultiThreshold <out_dtype = "BIPOLAR", out_scale = 2.0, out_bias = -1.0> (x, t)'
    assert quantized(node, "float[1, 1] t = {3}") == "BIPOLAR"


def test_integer_thresholds_are_annotated():
    model = model_of(
        "g (float[2, 4] x) => (float[2, 4] y) <float[1, 3] t = {-5, 1, 2}>"
        '{ y = qonnx.custom_op.general.MultiThreshold <out_dtype = "UINT2"> (x, t) }',
        domains=QONNX,
    )
    settle(InferDatatypes(), model)
    assert datatype_of(value(model, "t")) == parse("INT4")


def test_other_operators_of_qonnx():
    product, bits = "XnorPopcountMatMul (x, w)", "float[4, 2] w = {1, 0, 1, 0, 1, 0, 1, 0}"
    assert quantized(product, bits, "BINARY") == "UINT3"
    assert quantized(product, bits, "UINT2") == "FLOAT32", "that is no sum of bits"
    pool = "QuantAvgPool2d <stride = 1, kernel = 1, ibits = 4, obits = 3, signed = 0> (x)"
    assert quantized(pool) == "UINT3"
    for node in (
        "MaxPoolNHWC <kernel_shape = [1, 1]> (x)",
        "DebugMarker (x)",
        "Im2Col <pad_amount = [0, 0, 0, 0]> (x)",
    ):
        assert quantized(node, declared="BIPOLAR") == "BIPOLAR"
    assert quantized("Im2Col <pad_amount = [1, 1, 1, 1]> (x)", declared="BIPOLAR") == "TERNARY"


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general", "finn", "onnx_passes"])
def test_other_domains(domain: str):
    model = model_of(
        "g (float[2] x) => (float[2] y) <float one = {1}, float zero = {0}, float four = {4}>"
        f"{{ y = {domain}.Quant <signed = 1, narrow = 0> (x, one, zero, four) }}",
        domains=f'"{domain}" : 1',
    )
    settle(InferDatatypes(), model)
    assert datatype_of(value(model, "y")) == parse("INT4")


def test_unknown_operators_keep_what_is_declared():
    text = "g (float[2] x) => (float[2] y) { a = my.Thing (x) b = my.Thing (a) y = Add (a, b) }"
    model = model_of(text, domains='"my" : 1')
    set_datatype(value(model, "a"), "INT4")
    settle(InferDatatypes(), model)
    assert [str(datatype_of(value(model, name))) for name in "aby"] == ["INT4", "FLOAT32", "FLOAT32"]


def test_an_unknown_type_names_the_tensor():
    model = model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }")
    annotations.set(value(model, "x"), {"finn_datatype": "int4"})
    with pytest.raises(
        ModelError, match=r"finn_datatype of tensor 'x': there is no data type 'int4'; did you mean 'INT4'"
    ):
        InferDatatypes().call(model)
    model = model_of(
        'g (float[2] x) => (float[2] y) <float[1, 1] t = {1}>{ [n] y = finn.MultiThreshold <out_dtype = "U2"> (x, t) }',
        domains='"finn" : 1',
    )
    with pytest.raises(ModelError, match=r"out_dtype of finn::MultiThreshold 'n': there is no data type 'U2'"):
        InferDatatypes().call(model)


def test_runs_in_a_pipeline():
    model = model_of("g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }")
    set_datatype(value(model, "x"), "INT4")
    result = onnx_passes.apply(model, "infer-datatypes{allow-scaledint=true}, check-datatypes", paranoid=True)
    assert result["check-datatypes"] == {"constants": 0, "results": 2, "samples": 3}


@pytest.mark.parametrize("seed", range(15))
def test_random_models_hold_what_is_inferred(seed: int):
    """Inputs and constants are small integers, and what is inferred is tried in ONNX Runtime."""
    model = random_model(seed, nodes=25)
    rng = np.random.default_rng(seed)
    for initializer in model.graph.initializers.values():
        array = initializer.const_value.numpy()
        if array.dtype == np.float32:
            whole = rng.integers(-3, 4, array.shape).astype(np.float32)
            initializer.const_value = ir.Tensor(whole, name=initializer.name)
    names = ["INT2", "BIPOLAR", "UINT3", "TERNARY"]
    found = infer(model, **{str(v.name): str(rng.choice(names)) for v in model.graph.inputs})
    assert {*found.values()} - {"FLOAT32", *names}, "nothing was computed"


@pytest.mark.parametrize("seed", range(15, 40))
def test_models_that_make_no_sense_are_refused_in_words(seed: int):
    rng = random.Random(seed)
    model = random_model(seed, nodes=15)
    for v in model.graph.inputs:
        set_datatype(v, "INT4")
    for _ in range(rng.randrange(1, 4)):
        damage(model, rng)
    for pass_ in (InferDatatypes(), CheckDatatypes(execute=False)):
        before = full_hash(model)
        modified = False
        with contextlib.suppress(OnnxPassesError):
            modified = pass_.run(model, Context()).modified
        assert modified == (full_hash(model) != before)


def is_small(path: Path) -> bool:
    return path.stat().st_size <= 300_000


@pytest.mark.parametrize("path", files("brevitas", "qcdq", "edge", keep=is_small), indirect=True)
def test_real_models_hold_what_is_inferred(path: Path):
    model = load(path)
    ShapeInference().run(model, Context())
    settle(InferDatatypes(), model)
    CheckDatatypes().analyze(model)
