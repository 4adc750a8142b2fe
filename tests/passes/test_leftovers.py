"""No conversion leaves in silence what it was asked to convert: how many of which operator stay is noted, and why."""

from __future__ import annotations

import numpy as np
import pytest

import onnx_passes
from onnx_passes.api import run_model
from tests.passes.quant.tools import model_of as quantized_model
from tests.passes.tools import model_of, operators

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
SCALES = "float s = {0.5}, float z = {0}, float b = {4}, float many = {12}, float[1, 2] w = {-1.5, 2}"


def notes(pipeline: str, text: str, domains: str = "") -> list[str]:
    """Apply a pipeline; returns what the conversion itself noted."""
    model = quantized_model(text) if not domains else model_of(text, domains=domains)
    result = onnx_passes.apply(model, pipeline)
    return [note for step in result.steps if step.name == pipeline.partition("{")[0] for note in step.notes]


def graph(body: str, constants: str = SCALES, inputs: str = "float[2, 2] x", outputs: str = "float[2, 2] y") -> str:
    return f"g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}"


def quant(bits: str = "b", mode: str = "ROUND", x: str = "x") -> str:
    return f'{GENERAL}.Quant <signed = 1, narrow = 0, rounding_mode = "{mode}"> ({x}, s, z, {bits})'


def test_quantizers_that_qcdq_cannot_say_are_counted_by_kind_and_reason():
    body = (
        f"a = {quant(mode='FLOOR')} c = {quant(mode='FLOOR', x='a')} d = {quant('many', x='c')} "
        f"e = {quant(x='d')} f = {GENERAL}.BipolarQuant (e, s) v = {GENERAL}.BipolarQuant (w, s) y = Add (f, v)"
    )
    found = notes("convert-to-qcdq", graph(body))
    assert found == [
        "3 Quant stay: 2 × it rounds by FLOOR, QuantizeLinear half to even; 1 × QuantizeLinear has no type of 12 bits",
        "1 BipolarQuant stays: one signed bit is -1 or 1, and QuantizeLinear has zero as well",
        "quantizers that QuantizeLinear cannot express were lowered to other standard operators",
    ]


def test_what_qcdq_cannot_say_is_written_in_standard_operators_so_that_the_file_loads():
    body = f"a = {quant(mode='FLOOR')} c = {GENERAL}.BipolarQuant (a, s) y = mine.Foo (c)"
    model = model_of(graph(body), domains=f'"{GENERAL}" : 1, "mine" : 1')
    result = onnx_passes.apply(model, "convert-to-qcdq", verify=False)
    assert [node.op_type for node in result.model.graph if node.domain] == ["Foo"]
    assert any(note.startswith("1 mine.Foo stays: onnxruntime does not know it") for note in result.steps[-1].notes)
    kept = onnx_passes.apply(model, "convert-to-qcdq{rest=keep}", verify=False)
    assert [node.op_type for node in kept.model.graph if node.domain] == ["Quant", "BipolarQuant", "Foo"]
    assert any("BipolarQuant stays: onnxruntime does not know it" in note for note in kept.steps[-1].notes)


def test_nothing_is_noted_where_nothing_stays():
    assert notes("convert-to-qcdq", graph(f"y = {quant()}")) == []


@pytest.mark.parametrize("scale", [" s = {0.5}", "[1] s = {0.5}"])
def test_signs_of_constants_are_stored(scale: str):
    text = graph(f"v = {GENERAL}.BipolarQuant (w, s) y = Add (x, v)", f"float{scale}, float[1, 2] w = {{-1.5, 0}}")
    model = onnx_passes.apply(quantized_model(text), "convert-to-qcdq").model
    assert operators(model.graph)[-2:] == ["DequantizeLinear", "Add"]
    x = np.zeros((2, 2), np.float32)
    np.testing.assert_array_equal(run_model(model, {"x": x})["y"], [[-0.5, 0.5]] * 2)


def test_parameters_that_are_inputs_with_a_default_are_no_obstacle():
    text = (
        f"g (float[2, 2] x, float s = {{0.5}}, float z = {{0}}, float b = {{4}}) => (float[2, 2] y) {{ y = {quant()} }}"
    )
    result = onnx_passes.apply(quantized_model(text), "convert-to-qcdq")
    assert operators(result.model.graph) == ["QuantizeLinear", "Clip", "DequantizeLinear"]
    assert [value.name for value in result.model.graph.inputs] == ["x"]


SOFTMAX = "com.microsoft.QLinearSoftmax <axis = -1, opset = 13>"
SATURATES = "without VNNI, ONNX Runtime saturates sums of uint8 times int8: the result depends on the machine"
BYTES = "float s = {0.5}, uint8 z = {0}, int8[2, 2] w = {127, 127, 127, 127}, int8 i = {0}"


@pytest.mark.parametrize(
    ("pipeline", "text", "expected"),
    [
        (
            "convert-qcdq",
            graph("q = QuantizeLinear (x, c, z) y = DequantizeLinear (q, c, z)", BYTES, "float[2, 2] x, float c"),
            [
                "1 QuantizeLinear stays: its result is not dequantized",
                "1 DequantizeLinear stays: the scale is not constant",
            ],
        ),
        (
            "convert-qcdq",
            graph("y = DequantizeLinear (a, s, z)", BYTES, "uint8[2, 2] a"),
            ["1 DequantizeLinear stays: the input is neither constant nor quantized just before"],
        ),
        (
            "convert-qoperator",
            graph(
                "y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (a, s, z, s, z)",
                BYTES,
                "uint8[2, 2] a",
                "uint8[2, 2] y",
            ),
            ["1 QLinearSoftmax stays: no equivalent float operator is known"],
        ),
        (
            "convert-integer-product",
            graph("y = MatMulInteger (a, w, z, i)", BYTES, "uint8[2, 2] a", "int32[2, 2] y"),
            [f"1 MatMulInteger stays: {SATURATES}"],
        ),
        (
            "convert-bipolar",
            graph(f"y = {GENERAL}.BipolarQuant (x, c)", inputs="float[2, 2] x, float c"),
            ["1 BipolarQuant stays: the scale is not constant in single precision"],
        ),
        (
            "convert-bipolar{to=bipolar-quant}",
            graph(
                f"a = {quant()} y = {quant('one', x='a')}", SCALES.replace("z = {0}", "z = {1}") + ", float one = {1}"
            ),
            ["1 Quant stays: it has a zero point"],
        ),
        (
            "convert-rounding",
            graph("c = Clip (x, l, h) y = Round (c)", "float l = {-7.5}, float h = {7}"),
            ["1 Round stays: a bound is not an integer that floats hold"],
        ),
    ],
)
def test_rules_say_what_they_leave(pipeline: str, text: str, expected: list[str]):
    assert notes(pipeline, text) == expected


def test_what_is_in_functions_is_not_forgotten():
    text = f"""
    g (float[2] x) => (float[2] y) {{ y = local.f (x) }}
    <domain: "local", opset_import: ["" : 18, "{GENERAL}" : 1]>
    f (a) => (c) {{ s = Constant <value_float = 1.0> () c = {GENERAL}.BipolarQuant (a, s) }}
    """
    model = model_of(text, domains='"local" : 1')
    result = onnx_passes.apply(model, "convert-to-qcdq")
    assert result.steps[-1].notes[0] == "1 BipolarQuant stays: in a function of the model: run inline-functions first"
    assert [node.op_type for node in result.model.functions["local", "f", ""] if node.domain] == []


@pytest.mark.parametrize("pipeline", ["inline-qonnx", "import-qonnx"])
def test_operators_that_qonnx_has_not(pipeline: str):
    found = onnx_passes.apply(
        model_of(f"g (float[2] x) => (float[2] y) {{ y = {GENERAL}.Foo (x) }}", domains=f'"{GENERAL}" : 1'),
        pipeline,
        verify=False,
    )
    assert "1 Foo stays: there is no such operator of QONNX" in found.steps[-1].notes


def test_operators_that_nobody_defines():
    text = "g (float[2] x) => (float[2] y) { a = com.microsoft.Gelu (x) y = mine.Bar (a) }"
    model = model_of(text, domains='"com.microsoft" : 1, "mine" : 1')
    found = onnx_passes.apply(model, "inject-ops", verify=False)
    assert found.steps[-1].notes == ["1 mine::Bar stays: it is not defined here"]
    found = onnx_passes.apply(model, "export-qonnx", verify=False)
    assert "1 com.microsoft::Gelu stays: QONNX has no such operator" in found.steps[-1].notes
    assert "1 mine::Bar stays: QONNX has no such operator" in found.steps[-1].notes


def test_channels_last_operators_with_wrong_attributes():
    text = f"g (float[1,4,4,2] x) => (float[1,4,4,2] y) {{ y = {LAST}.Resize (x) }}"
    found = onnx_passes.apply(model_of(text, domains=f'"{LAST}" : 1'), "convert-channels-first", verify=False)
    assert [note for step in found.steps for note in step.notes if "Resize" in note] == [
        "1 Resize stays: there is no such operator of QONNX"
    ]


def test_the_same_note_is_shown_once(capsys: pytest.CaptureFixture[str]):
    from onnx_passes.report.tables import show_run

    text = graph("q = QuantizeLinear (x, c, z) y = DequantizeLinear (q, c, z)", BYTES, "float[2, 2] x, float c")
    result = onnx_passes.apply(quantized_model(text), "convert-qcdq, convert-qcdq")
    show_run(result.record)
    assert capsys.readouterr().err.count("QuantizeLinear stays: its result is not dequantized") == 1
