from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.quant.tools import applied, computed, model_of, quantized, quantizers, reasons, ties
from tests.passes.tools import operators

BOUNDED = "c = Clip (x, low, high) y = Round (c)"
FORMS = {
    "bounded": BOUNDED,
    "rounded first": "r = Round (x) y = Clip (r, low, high)",
    "max of min": "m = Min (x, high) c = Max (m, low) y = Round (c)",
    "min of max": "m = Max (low, x) c = Min (high, m) y = Round (c)",
    "compared": "a = Greater (x, high) b = Where (a, high, x) l = Less (b, low) c = Where (l, low, b) y = Round (c)",
}


def rounded(low: float, high: float, body: str = BOUNDED) -> ir.Model:
    return quantized(f"float low = {{{low}}}, float high = {{{high}}}", body)


def assert_computes_the_same(model: ir.Model, original: ir.Model) -> None:
    x = ties(1.0, 40)
    for left, right in zip(computed(model, x=x), computed(original, x=x), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    ("low", "high", "width"),
    [(-8, 7, (4, True, False)), (-7, 7, (4, True, True)), (0, 15, (4, False, False)), (0, 1, (1, False, False))],
)
def test_rounding_between_bounds_becomes_quant(body: str, low: int, high: int, width: tuple[int, bool, bool]):
    model = applied("convert-rounding", rounded(low, high, body))
    assert operators(model.graph) == ["Quant"]
    [found] = quantizers(model)
    assert (found.bits, found.signed, found.narrow, found.scale, found.zero) == (*width, 1, 0)
    assert_computes_the_same(model, rounded(low, high, body))


@pytest.mark.parametrize(("operator", "mode"), [("Round", "ROUND"), ("Floor", "FLOOR"), ("Ceil", "CEIL")])
def test_keeps_the_way_of_rounding(operator: str, mode: str):
    original = rounded(-8, 7, BOUNDED.replace("Round", operator))
    model = applied("convert-rounding", original.clone())
    assert [found.rounding for found in quantizers(model)] == [mode]
    assert_computes_the_same(model, original)


def test_clips_where_no_width_has_the_range():
    model = applied("convert-rounding", rounded(-5, 10))
    assert operators(model.graph) == ["Quant", "Clip"]
    assert_computes_the_same(model, rounded(-5, 10))


def test_choice_between_opposite_numbers_becomes_bipolar_quant():
    parameters = "float z = {0}, float one = {1}, float other = {-1}"
    model = applied("convert-rounding", quantized(parameters, "p = GreaterOrEqual (x, z) y = Where (p, one, other)"))
    assert operators(model.graph) == ["BipolarQuant"]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (rounded(-0.5, 7), "not an integer"),
        (rounded(7, -8), "no integers between"),
        (quantized("float[3] low = {0, 0, 0}, float[3] high = {1, 2, 3}", FORMS["max of min"]), "not one constant"),
        (
            model_of("g (float[3] x, float low) => (float[3] y) <float high = {7}> { " + BOUNDED + " }"),
            "not one constant",
        ),
        (
            quantized("double low = {-8}, double high = {7}", BOUNDED, "double[N,3] x", "double[N,3] y"),
            "not known to be in single precision",
        ),
        (
            quantized(
                "float low = {0}, float high = {3}, float low2 = {1}",
                FORMS["compared"].replace("(l, low, b)", "(l, low2, b)"),
            ),
            "other numbers",
        ),
    ],
)
def test_refuses(model: ir.Model, reason: str):
    assert reason in reasons("convert-rounding", model)


def test_rounding_that_others_need_stays():
    model = quantized("float low = {0}, float high = {15}", "c = Clip (x, low, high) r = Round (c) y = Sub (c, r)")
    result = onnx_passes.apply(model, "convert-rounding")
    assert not result.steps[-1].modified


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("narrow", [0, 1])
@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "CEIL"])
@pytest.mark.parametrize("zero", ["0", "-0.0", "3"])
def test_undoes_inlining(signed: int, narrow: int, mode: str, zero: str):
    call = f'y = qonnx.custom_op.general.Quant <signed = {signed}, narrow = {narrow}, rounding_mode = "{mode}">'
    original = quantized(f"float s = {{0.5}}, float z = {{{zero}}}, float b = {{4}}", f"{call} (x, s, z, b)")
    model = applied("inline-qonnx, convert-rounding", original.clone())
    [found] = quantizers(model)
    assert (found.bits, found.signed, found.narrow, found.rounding) == (4, bool(signed), bool(narrow), mode)
    x = ties(0.5, 40)
    for left, right in zip(computed(model, x=x), computed(original, x=x), strict=True):
        np.testing.assert_array_equal(left, right)
