from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnx_passes
from onnx_passes.api import run_model
from onnx_passes.core.base import Context
from onnx_passes.graph import annotations
from onnx_passes.passes.qonnx.inline_qonnx import InlineQonnx
from tests.helpers.small_models import files
from tests.passes.qonnx.tools import GENERAL, X, quantized
from tests.passes.tools import apply, assert_equal_results, check, model_of, run, value


@pytest.mark.parametrize("opset", [9, 13, 18])
@pytest.mark.parametrize("domain", [GENERAL, "onnx.brevitas", "finn"])
def test_standard_operators_take_the_place(opset: int, domain: str):
    model = quantized(domain=domain, opset=opset)
    expected = run_model(model, {"x": X})
    assert apply(InlineQonnx(), model)
    assert {node.domain for node in model.graph} == {""}
    check(model)
    assert_equal_results(model, list(expected.values()), {"x": X})


def test_names_and_annotations_of_results_stay():
    model = quantized()
    annotations.set(value(model, "y0"), {"finn_datatype": "SCALEDINT<4>"})
    assert apply(InlineQonnx(), model)
    assert annotations.get(value(model, "y0")) == {"finn_datatype": "SCALEDINT<4>"}


def test_bodies_are_rewritten():
    model = model_of(
        f"""
        g (bool c, float[4] x) => (float[4] y)
        {{
            y = If (c) <
                then_branch = then () => (float[4] t)
                    {{ one = Constant <value_float = 1.0> () t = {GENERAL}.BipolarQuant (x, one) }},
                else_branch = otherwise () => (float[4] e) {{ e = local.sign (x) }}
            >
        }}
        <domain: "local", opset_import: ["" : 18, "{GENERAL}" : 1]>
        sign (a) => (b) {{ two = Constant <value_float = 2.0> () b = {GENERAL}.BipolarQuant (a, two) }}
        """,
        domains=f'"local" : 1, "{GENERAL}" : 1',
    )
    assert apply(InlineQonnx(), model)
    x = np.array([-1, -0.0, 2, np.nan], np.float32)
    for choice, expected in ((True, [-1, 1, 1, -1]), (False, [-2, 2, 2, -2])):
        (found,) = run(model, {"c": np.array(choice), "x": x})
        assert found.tolist() == expected


def refusals(model: object) -> set[str]:
    context = Context()
    InlineQonnx().run(model, context)  # type: ignore[arg-type]
    return {reason for rule in context.record.rules for reason in rule.refused}


def test_functions_of_the_model_win():
    model = model_of(
        f"""
        g (float[4] x) => (float[4] y) {{ y = {GENERAL}.BipolarQuant (x, x) }}
        <domain: "{GENERAL}", opset_import: ["" : 18]>
        BipolarQuant (a, s) => (b) {{ b = Neg (a) }}
        """,
        domains=f'"{GENERAL}" : 1',
    )
    assert refusals(model) == {"the model has a function for the operator"}


def test_refuses_attributes_that_only_callers_know():
    model = model_of(
        f"""
        g (float[4] x) => (float[4] y) {{ y = local.f <n = 1> (x) }}
        <domain: "local", opset_import: ["" : 18, "{GENERAL}" : 1]>
        f <n> (a) => (b)
        {{
            one = Constant <value_float = 1.0> ()
            b = {GENERAL}.Quant <narrow : int = @n> (a, one, one, one)
        }}
        """,
        domains=f'"local" : 1, "{GENERAL}" : 1',
    )
    assert refusals(model) == {"the attribute 'narrow' is only known where the function is called"}


@pytest.mark.parametrize("path", files("zoo", "brevitas", "edge"), indirect=True)
def test_models_of_others_run_without_custom_operators(path: Path):
    if path.stat().st_size > 100_000:
        pytest.skip("takes long")
    result = onnx_passes.apply(
        path, "import-qonnx, inline-qonnx, remove-unused-opsets", verify=path.parent.name == "zoo"
    )
    assert set(result.model.opset_imports) == {""}
