"""Quantizers round to integers; what they compute with scale and zero point stays bit by bit the same."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes.passes.streamline.extract_quant_scale_zeropoint import ExtractQuantScaleZeropoint
from tests.passes.quant.tools import assert_same_bits, computed, reasons, ties
from tests.passes.streamline.tools import DOMAIN, interior, network, numbers, quant
from tests.passes.tools import apply, check, model_of, operators

PASS = "extract-quant-scale-zeropoint"


def extracted(model: ir.Model, expected: list[str], *, scale: float = 0.25) -> ir.Model:
    """Extract, verified; compare on all that is special to floats, and see that quantizers make integers."""
    result = onnx_passes.apply(model, PASS)
    assert result.steps[-1].evidence is not None
    assert operators(result.model.graph) == expected
    check(result.model)
    sizes = [size for size in model.graph.inputs[0].shape or () if isinstance(size, int)]
    special = ties(scale, 20).reshape(-1)
    x = np.resize(special, (1 + special.size // int(np.prod(sizes)), *sizes))
    assert_same_bits(computed(model, x=x), computed(result.model, x=x))
    made = [node.outputs[0] for node in result.model.graph if node.domain]
    for arrays in interior(result.model, made):
        for array in arrays:
            np.testing.assert_array_equal(array, np.rint(array))
    onnx_passes.apply(result.model, "shape-inference", in_place=True)
    assert not apply(ExtractQuantScaleZeropoint(), result.model)
    return result.model


@pytest.mark.parametrize("scale", [0.25, 0.3, -0.5])
@pytest.mark.parametrize(
    ("zero", "around"), [(0.0, ["Div", "Quant", "Mul"]), (3.0, ["Div", "Add", "Quant", "Sub", "Mul"])]
)
def test_scale_and_zero_point_move_around_the_quantizer(scale: float, zero: float, around: list[str]):
    model = network(f"y = {quant('x', 's', zero='z')}", "float[N,3] x", "float[N,3] y", s=scale, z=zero)
    extracted(model, around, scale=abs(scale))


def test_zero_point_alone():
    model = network(f"y = {quant('x', 's', 3, zero='z', signed=0)}", "float[N,3] x", "float[N,3] y", s=1.0, z=2.0)
    extracted(model, ["Add", "Quant", "Sub"], scale=1.0)


def test_parameters_of_channels():
    model = network(
        f"y = {quant('x', 's', zero='z')}",
        "float[N,2,3] x",
        "float[N,2,3] y",
        s=np.array([0.3, 0.5]).reshape(1, 2, 1),
        z=np.array([0.0, 2.0]).reshape(1, 2, 1),
    )
    extracted(model, ["Div", "Add", "Quant", "Sub", "Mul"])


@pytest.mark.parametrize("mode", ["ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN"])
def test_every_way_to_round_is_kept(mode: str):
    body = f'y = {DOMAIN}.Quant<signed=1, narrow=1, rounding_mode="{mode}">(x, s, z, bits3)'
    model = network(body, "float[N,3] x", "float[N,3] y", s=0.3, z=1.0)
    after = extracted(model, ["Div", "Add", "Quant", "Sub", "Mul"], scale=0.3)
    (node,) = [node for node in after.graph if node.op_type == "Quant"]
    assert node.attributes["rounding_mode"].as_string() == mode
    assert node.attributes["narrow"].as_int() == 1


@pytest.mark.parametrize(
    ("operator", "domain"),
    [
        ("IntQuant", DOMAIN),
        ("Quant", "onnx.brevitas"),
        ("IntQuant", "finn.custom_op.general"),
    ],
)
def test_other_names_of_the_operator(operator: str, domain: str):
    text = f"""g (float[N,3] x) => (float[N,3] y) <float s = {{0.3}}, float z = {{1.0}}, float b = {{4.0}}> {{
        y = {domain}.{operator}<signed=1, narrow=0>(x, s, z, b) }}"""
    model = model_of(text, domains=f'"{domain}" : 1')
    extracted(model, ["Div", "Add", "Quant", "Sub", "Mul"], scale=0.3)


def test_signs():
    model = network(f"y = {DOMAIN}.BipolarQuant(x, s)", "float[N,3] x", "float[N,3] y", s=0.3)
    extracted(model, ["BipolarQuant", "Mul"])


def test_truncation():
    body = f'q = {quant("x", "s", 8)} y = {DOMAIN}.Trunc<rounding_mode="FLOOR">(q, s, zero, bits8, t, bits4)'
    text_model = network(body, "float[N,3] x", "float[N,3] y", s=0.25, t=4.0)
    text_model.opset_imports[DOMAIN] = 2
    result = onnx_passes.apply(text_model, PASS)
    assert operators(result.model.graph) == ["Div", "Quant", "Mul", "Div", "Trunc", "Mul"]
    assert_same_bits(computed(text_model, x=ties(0.25)), computed(result.model, x=ties(0.25)))


@pytest.mark.parametrize(
    ("body", "constants", "reason"),
    [
        (f"v = {quant('w', 's')} y = Add(x, v)", {"s": 0.25, "w": numbers(3)}, "quantizes a constant"),
        (f"c = Abs(x) m = ReduceMax<keepdims=0>(c) y = {quant('x', 'm')}", {}, "is computed"),
        (f"y = {quant('x', 's')}", {"s": 1.0}, "integers already"),
        (f"y = {quant('x', 's')}", {"s": [0.0, 1.0, 1.0]}, "scale is 0"),
        (f"y = {quant('x', 's')}", {"s": float("inf")}, "not finite"),
    ],
)
def test_refusals(body: str, constants: dict[str, object], reason: str):
    if "inf" in str(constants.get("s")):
        model = network(body, "float[3] x", "float[3] y", s=1.0)
        model.graph.initializers["s"].const_value = ir.Tensor(np.array(np.inf, np.float32))
    else:
        model = network(body, "float[3] x", "float[3] y", **constants)
    assert reason in reasons(PASS, model)


def test_parameters_of_higher_rank_are_refused():
    model = network(f"y = {quant('x', 's')}", "float[3] x", "float[1,3] y", s=[[0.5]])
    assert "higher rank" in reasons(PASS, model)


def test_half_precision_is_refused():
    """The quotient of 0.25 and 0.1 is above a tie in single precision, and the tie itself in half."""
    bits = np.array([0.1, 0.0, 4.0], np.float16).view(np.int16)
    given = ", ".join(f"float16 {name} = {{{number}}}" for name, number in zip("szb", bits, strict=True))
    body = f"y = {DOMAIN}.Quant<signed=1, narrow=0>(x, s, z, b)"
    model = model_of(f"g (float16[3] x) => (float16[3] y) <{given}> {{ {body} }}", domains=f'"{DOMAIN}" : 1')
    assert "round it to half" in reasons(PASS, model)


def test_truncation_by_no_power_of_two_is_refused():
    body = f'y = {DOMAIN}.Trunc<rounding_mode="FLOOR">(x, s, zero, bits8, t, bits4)'
    model = network(body, "float[3] x", "float[3] y", s=0.25, t=0.75)
    model.opset_imports[DOMAIN] = 2
    assert "power of two" in reasons(PASS, model)


def test_a_quantizer_whose_result_is_used_twice_is_computed_once():
    model = network(f"q = {quant('x', 's')} a = Relu(q) y = Add(a, q)", "float[N,3] x", "float[N,3] y", s=0.25)
    after = extracted(model, ["Div", "Quant", "Mul", "Relu", "Add"])
    (multiplied,) = [node for node in after.graph if node.op_type == "Mul"]
    assert len(multiplied.outputs[0].uses()) == 2
