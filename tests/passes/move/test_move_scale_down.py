"""Constant factors move down past products, to where branches join."""

from __future__ import annotations

import pytest

from onnx_passes.core.base import Context
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.move.move_scale_down import MoveScaleDown
from tests.passes.move.tools import refusals, rounded
from tests.passes.tools import apply, model_of

CONSTANTS = "float s = {0.37}, float t = {2.0}, float[2] b = {1.5, -2.0}, float[2, 2] w = {1.0, 2.0, -3.0, 0.25}"


def graph(body: str, inputs: str = "float[3, 2] x", outputs: str = "float[A, B] y", constants: str = CONSTANTS) -> str:
    return f"g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}"


@pytest.mark.parametrize(
    ("body", "operators"),
    [
        ("m = Mul (x, s)  y = MatMul (m, w)", "MatMul Mul"),
        ("m = Mul (s, x)  y = Gemm <alpha = 2.0, beta = 0.5> (m, w, b)", "Gemm Mul"),
        ("m = Mul (x, s)  p = MatMul (m, w)  q = Add (p, b)  y = Add (q, m)", "MatMul Add Add Mul"),
        ("m = Mul (x, s)  p = MatMul (m, w)  q = Add (p, b)  y = Sub (m, q)", "MatMul Add Sub Mul"),
        (
            "m = Mul (x, s)  p = MatMul (m, w)  q = Add (p, b)  r = Relu (q)  y = MatMul (r, w)",
            "MatMul Add Relu MatMul Mul",
        ),
        # Behind the last product the bias comes after the factor, as in BatchNormalization.
        ("m = Mul (x, s)  p = MatMul (m, w)  y = Add (p, b)", "MatMul Mul Add"),
        # Two residual blocks, one behind the other.
        (
            """m = Mul (x, s)  p = MatMul (m, w)  q = Add (p, b)  j = Add (m, q)
            k = MatMul (j, w)  l = Sub (b, k)  y = Add (l, j)""",
            "MatMul Add Add MatMul Sub Add Mul",
        ),
    ],
)
def test_factors_come_behind_products_and_joins(body, operators):
    assert rounded(MoveScaleDown(), graph(body)) == operators.split()


def test_factors_of_both_branches_need_only_be_equal():
    text = graph(
        "m = Mul (x, s)  n = Mul (u, z)  y = Add (m, n)",
        "float[3, 2] x, float[3, 2] z",
        constants="float s = {0.5}, float[1] u = {0.5}",
    )
    assert rounded(MoveScaleDown(), text) == ["Add", "Mul"]


def test_the_bias_of_a_convolution_is_divided():
    text = graph(
        "m = Mul (x, s)  y = Conv (m, k, b)",
        "float[1, 2, 3, 3] x",
        "float[1, 2, 3, 3] y",
        f"{CONSTANTS}, float[2, 2, 1, 1] k = {{1.0, 2.0, -3.0, 0.25}}",
    )
    model = model_of(text)
    ShapeInference().run(model, Context())
    assert apply(MoveScaleDown(), model)
    bias = model.graph.node(0).inputs[2].const_value.numpy()
    assert bias.tolist() == pytest.approx([1.5 / 0.37, -2.0 / 0.37])


@pytest.mark.parametrize(
    ("body", "outputs", "reason"),
    [
        ("m = Mul (x, s)  y = Add (m, b)", "float[A, B] y", "no product or join follows"),
        ("m = Mul (x, s)  r = Relu (m)  y = Sigmoid (r)", "float[A, B] y", "no product or join follows"),
        ("m = Mul (x, b)  y = MatMul (m, w)", "float[A, B] y", "not one number"),
        ("m = Mul (x, zero)  y = MatMul (m, w)", "float[A, B] y", "zero or not finite"),
        ("m = Mul (x, tiny)  a = Add (m, b)  y = MatMul (a, w)", "float[A, B] y", "not linear here"),
        ("m = Mul (x, s)  y = MatMul (m, w)", "float[A, B] y, float[3, 2] m", "used elsewhere"),
        ("m = Mul (x, s)  y = MatMul (m, w)  z = Sigmoid (m)", "float[A, B] y, float[3, 2] z", "used elsewhere"),
        (
            "m = Mul (x, s)  k = Mul (x, t)  p = MatMul (m, w)  y = Add (k, p)  z = Exp (m)",
            "float[A, B] y, float[3, 2] z",
            "used elsewhere",
        ),
        ("m = Mul (x, x)  y = MatMul (m, w)", "float[A, B] y", "not one operand is constant"),
        ("m = Mul (x, minus)  r = Relu (m)  y = MatMul (r, w)", "float[A, B] y", "not linear here"),
    ],
)
def test_refusals(body, outputs, reason):
    constants = f"{CONSTANTS}, float zero = {{0.0}}, float tiny = {{1e-39}}, float minus = {{-2.0}}"
    found = refusals(MoveScaleDown(), graph(body, outputs=outputs, constants=constants))
    assert any(reason in text for text in found), found


def test_a_factor_that_a_caller_may_override_stays():
    text = graph("m = Mul (x, s)  y = MatMul (m, w)", "float[3, 2] x, float s")
    assert refusals(MoveScaleDown(), text)


def test_integers_are_left_to_factorize_linear():
    text = "g (int32[3, 2] x, int32[2, 2] w) => (int32[3, 2] y) <int32 s = {2}> { m = Mul (x, s)  y = MatMul (m, w) }"
    assert any("floats" in text for text in refusals(MoveScaleDown(), text))


def test_a_factor_is_left_behind_only_where_both_branches_would_need_it():
    text = graph(
        "m = Mul (x, s)  n = Mul (z, s)  y = Add (m, n)  u = Exp (m)  v = Exp (n)",
        "float[3, 2] x, float[3, 2] z",
        "float[3, 2] y, float[3, 2] u, float[3, 2] v",
    )
    assert any("both products are used elsewhere" in reason for reason in refusals(MoveScaleDown(), text))
