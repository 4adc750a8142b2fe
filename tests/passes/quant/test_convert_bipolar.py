from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from tests.passes.quant.tools import applied, assert_same_bits, computed, quantized, quantizers, reasons
from tests.passes.tools import operators

BIPOLAR = "y = qonnx.custom_op.general.BipolarQuant (x, s)"
QUANT = "y = qonnx.custom_op.general.Quant <signed = 1, narrow = {}> (x, s, z, b)"
WHERE = "c = GreaterOrEqual (x, z) y = Where (c, s, n)"
EDGES = np.array(
    [[0.0, -0.0, 1e-45], [-1e-45, np.nan, np.inf], [-np.inf, 3e38, -3e38], [1e-38, -1e-38, 0.5]], np.float32
)


def bipolar(scale: str = "float s = {0.3}", body: str = BIPOLAR, more: str = "") -> ir.Model:
    return quantized(f"{scale}, float z = {{0}}, float b = {{1}}{more}", body)


@pytest.mark.parametrize("scale", ["float s = {0.3}", "float[3] s = {0.001, 1, 1.999}", "float[1] s = {1}"])
@pytest.mark.parametrize(
    ("to", "wanted"),
    [("quant", ["Quant"]), ("standard", ["GreaterOrEqual", "Where", "Mul"])],
)
def test_bipolar_quant_becomes_another_form(scale: str, to: str, wanted: list[str]):
    model = applied(f"convert-bipolar{{to={to}}}", bipolar(scale))
    assert operators(model.graph) == wanted
    assert_same_bits(computed(model, x=EDGES), computed(bipolar(scale), x=EDGES))


def test_quant_of_one_signed_bit():
    model = applied("convert-bipolar", bipolar())
    assert [(q.bits, q.signed, q.zero) for q in quantizers(model)] == [(1, True, 0)]


@pytest.mark.parametrize(
    ("body", "more"), [(QUANT.format(0), ""), (QUANT.format(1), ""), (WHERE, ", float n = {-0.3}")]
)
def test_other_forms_become_bipolar_quant(body: str, more: str):
    model = applied("convert-bipolar{to=bipolar-quant}", bipolar(body=body, more=more))
    assert operators(model.graph) == ["BipolarQuant"]
    assert_same_bits(computed(model, x=EDGES), computed(bipolar(body=body, more=more), x=EDGES))


@pytest.mark.parametrize(
    ("pipeline", "model", "reason"),
    [
        ("convert-bipolar", bipolar("float s = {2}"), "between 0 and 2"),
        ("convert-bipolar", bipolar("float s = {-1}"), "between 0 and 2"),
        ("convert-bipolar", bipolar("float s = {0}"), "between 0 and 2"),
        ("convert-bipolar{to=bipolar-quant}", bipolar("float s = {2}", QUANT.format(0)), "between 0 and 2"),
        (
            "convert-bipolar{to=bipolar-quant}",
            quantized("float s = {1}, float z = {0}, float b = {2}", QUANT.format(0)),
            "not of one signed bit",
        ),
        (
            "convert-bipolar{to=bipolar-quant}",
            quantized("float s = {1}, float z = {1}, float b = {1}", QUANT.format(0)),
            "zero point",
        ),
        (
            "convert-bipolar{to=bipolar-quant}",
            quantized("float s = {1}, float[3] z = {0, 0, 0}, float b = {1}", QUANT.format(0), "float[N,1] x"),
            "enlarge",
        ),
        ("convert-bipolar{to=bipolar-quant}", bipolar(body=WHERE, more=", float n = {-0.4}"), "opposite"),
        (
            "convert-bipolar{to=bipolar-quant}",
            quantized("float s = {1}, float z = {0.5}, float n = {-1}", WHERE),
            "compare with zero",
        ),
    ],
)
def test_refuses(pipeline: str, model: ir.Model, reason: str):
    assert reason in reasons(pipeline, model)


def test_division_by_two_is_not_the_same():
    tiny = np.full((1, 3), -1e-45, np.float32)
    quant = computed(bipolar("float s = {2}", QUANT.format(0)), x=tiny)[0]
    assert not np.array_equal(quant, computed(bipolar("float s = {2}"), x=tiny)[0])


def test_comparisons_that_others_read_too_stay():
    text = "c = GreaterOrEqual (x, z) y = Where (c, s, n) w = Not (c)"
    model = quantized("float s = {1}, float z = {0}, float n = {-1}", text, y="float[N,3] y, bool[N,3] w")
    assert "used elsewhere" in reasons("convert-bipolar{to=bipolar-quant}", model)
