from __future__ import annotations

import re

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.graph.load import load
from onnx_passes.operators import hls4ml as interface
from onnx_passes.passes.export.hls4ml_names import identifier

GENERAL = "qonnx.custom_op.general"
LAST = "qonnx.custom_op.channels_last"
HEAD = f'<ir_version: 8, opset_import: ["" : 17, "{GENERAL}" : 1, "{LAST}" : 1]>'
QUANT = f"{GENERAL}.Quant"
WEIGHTS = "float[2, 2] w = {2, -1, 3, 1}, float one = {1}, float zero = {0}"


def exported(body: str, x: str = "float[1, 2]", y: str = "float[1, 2]", more: str = "") -> onnx_passes.Result:
    text = f"{HEAD} g ({x} x) => ({y} y) <{WEIGHTS}, float n = {{4}}{more}> {{ {body} }}"
    return onnx_passes.apply(text.encode(), "export-hls4ml")


def notes(result: onnx_passes.Result) -> str:
    return "\n".join(note for step in result.steps for note in step.notes)


def test_gives_every_quantizer_parameters_of_its_own() -> None:
    result = exported(f"q = {QUANT} (x, one, zero, n)  v = {QUANT} (w, one, zero, n)  y = MatMul (q, v)")
    initializers = result.model.graph.initializers.values()
    assert len(initializers) == 7
    assert all(len(value.uses()) == 1 for value in initializers)
    assert all(step.evidence is None or step.evidence.level in ("unchanged", "bits:sampled") for step in result.steps)


def test_writes_gemm_as_product_and_sum() -> None:
    result = exported("y = Gemm <transB = 1> (x, w, b)", more=", float[2] b = {1, 2}")
    assert [node.op_type for node in result.model.graph] == ["MatMul", "Add"]


def test_names_are_identifiers_and_none_is_input() -> None:
    text = f"""{HEAD} g (float[1, 2] input) => (float[1, 2] "74") <{WEIGHTS}> {{
        ["/0/MatMul"] "a.b/c" = MatMul (input, w)
        ["/0/MatMul_1"] "a_b_c" = Relu ("a.b/c")
        [class] "74" = Relu ("a_b_c")
    }}"""
    model = load(text.encode())
    result = onnx_passes.apply(model, "export-hls4ml")
    graph = result.model.graph
    values = [*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs)]
    names = [*(value.name for value in values), *(node.name for node in graph)]
    assert len(set(names)) == len(names)
    assert all(name and re.fullmatch(r"[A-Za-z]\w*", name) and name not in ("input", "class") for name in names)
    before = onnx_passes.run_model(model, {"input": np.array([[1, 2]], np.float32)})["74"]
    [after] = onnx_passes.run_model(result.model, {str(graph.inputs[0].name): np.array([[1, 2]], np.float32)}).values()
    assert np.array_equal(before, after)


def test_a_name_that_is_taken_gets_a_number() -> None:
    taken: set[str] = set()
    assert [identifier(name, taken, "tensor") for name in ("a.b", "a_b", "7", "", "input", "a__b")] == [
        *("a_b", "a_b_2", "tensor_7", "tensor_1", "input_1", "a_b_3"),
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = Erf (x)", "it has no layer for Erf"),
        (f'y = {QUANT} <rounding_mode = "CEIL"> (x, one, zero, n)', "and fails on CEIL: quantize by FLOOR or ROUND"),
        (
            f'y = {QUANT} <rounding_mode = "HALF_UP"> (x, one, zero, n)',
            "and fails on HALF_UP: quantize by ROUND, which",
        ),
        (f"y = {QUANT} <signed = 0, narrow = 1> (x, one, zero, n)", "its range is narrow and unsigned"),
        (f"y = {GENERAL}.BipolarQuant (x, one)", "run convert-to-fixed-point"),
        ("t = Transpose (x)  p = MatMul (t, x)  y = MatMul (x, p)", "its second operand is not a weight"),
        ("y = Softmax <axis = 0> (x)", "over the last axis only"),
        ("m = Max (x, w)  y = ReduceMin <keepdims = 1, axes = [0]> (m)", "not constants: run convert-to-fixed-point"),
        ("y = Sum (x, x, x)", "it merges two tensors, not 3"),
    ],
)
def test_says_what_hls4ml_does_not_take(body: str, reason: str) -> None:
    assert reason in notes(exported(body))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y = Conv (x, c)", "run convert-channels-last{inputs=true}"),
        ("y = GlobalAveragePool (x)", "it confuses channels and pixels"),
    ],
)
def test_says_what_images_hls4ml_does_not_take(body: str, reason: str) -> None:
    image = "float[1, 2, 2, 2]"
    size = "float[1, 2, 1, 1]" if "Global" in body else image
    assert reason in notes(exported(body, image, size, ", float[2, 2, 1, 1] c = {1, 2, 3, 4}"))


def test_says_that_hls4ml_counts_dilated_windows_wrong() -> None:
    weights = f", float[2, 2, 2, 2] d = {{{', '.join(['1'] * 16)}}}"
    conv = f"{LAST}.Conv <kernel_shape = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [2, 2], group = 1>"
    found = exported(f"y = {conv} (x, d)", "float[1, 4, 4, 2]", "float[1, 2, 2, 2]", weights)
    assert "a wrong result size for dilated windows" in notes(found)


def test_a_constant_output_is_named() -> None:
    text = f"{HEAD} g (float[1, 2] x) => (float[1, 2] y, float s) <{WEIGHTS}, float s = {{3}}> {{ y = MatMul (x, w) }}"
    assert "output 's' is constant" in notes(onnx_passes.apply(text.encode(), "export-hls4ml"))


def test_says_nothing_of_what_hls4ml_takes() -> None:
    assert "hls4ml does not" not in notes(exported(f"v = {QUANT} (w, one, zero, n)  p = MatMul (x, v)  y = Relu (p)"))


def test_an_operator_of_ones_own_may_be_a_layer_of_hls4ml() -> None:
    node = ir.Node("mine", "Layer", [])
    assert interface.get(node) is None
    assert interface.get(("", "Relu")) is not None


def test_a_second_export_changes_nothing() -> None:
    once = exported(f"q = {QUANT} (x, one, zero, n)  v = {QUANT} (w, one, zero, n)  y = MatMul (q, v)").model
    assert not any(step.modified for step in onnx_passes.apply(once, "export-hls4ml").steps)
