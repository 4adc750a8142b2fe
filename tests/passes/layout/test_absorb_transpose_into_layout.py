from __future__ import annotations

import numpy as np
import pytest

from onnx_passes import apply, run_model
from onnx_passes.ops.definition import OUR_DOMAIN
from tests.passes.tools import model_of, operators

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def converter(before: str, behind: str) -> str:
    return f'{OUR_DOMAIN}.LayoutConverter <from_layout: string = "{before}", to_layout: string = "{behind}">'


def absorbed(body: str, outputs: str = "float[A, B, C] y") -> list[tuple[str, str]]:
    model = model_of(f"g (float[2, 3, 4] x) => ({outputs}) {{ {body} }}")
    model.opset_imports[OUR_DOMAIN] = 1
    result = apply(model, "absorb-transpose-into-layout").model
    for name, array in run_model(model, {"x": X}).items():
        np.testing.assert_array_equal(run_model(result, {"x": X})[name], array)
    return [
        (node.attributes.get_string("from_layout", "?"), node.attributes.get_string("to_layout", "?"))
        if node.op_type == "LayoutConverter"
        else (node.op_type, "")
        for node in result.graph
    ]


@pytest.mark.parametrize(
    ("body", "layouts"),
    [
        (f"t = Transpose <perm = [1, 2, 0]> (x) y = {converter('NCW', 'NWC')} (t)", [("WNC", "NWC")]),
        (f"c = {converter('NCW', 'WNC')} (x) y = Transpose <perm = [2, 0, 1]> (c)", [("NCW", "CWN")]),
        (f"c = {converter('NCW', 'WNC')} (x) y = Transpose (c)", [("NCW", "CNW")]),
        (f"c = {converter('NCW', 'NWC')} (x) y = {converter('NWC', 'CWN')} (c)", [("NCW", "CWN")]),
        (
            f"t = Transpose (x) c = {converter('NCW', 'NWC')} (t) y = Transpose (c)",
            [("WCN", "CWN")],
        ),
        (f"c = {converter('NCW', 'NWC')} (x) y = Transpose <perm = [0, 2, 1]> (c)", [("NCW", "NCW")]),
    ],
)
def test_neighbours_are_taken_up(body, layouts):
    assert absorbed(body) == layouts


@pytest.mark.parametrize(
    ("body", "outputs", "layouts"),
    [
        (
            f"c = {converter('NCW', 'NWC')} (x) y = {converter('ABC', 'CBA')} (c)",
            "float[A, B, C] y",
            [("NCW", "NWC"), ("ABC", "CBA")],
        ),
        (
            f"c = {converter('NCW', 'NWC')} (x) y = Transpose (c) z = Relu (c)",
            "float[A, B, C] y, float[D, E, F] z",
            [("NCW", "NWC"), ("Transpose", ""), ("Relu", "")],
        ),
    ],
)
def test_refusals(body, outputs, layouts):
    assert absorbed(body, outputs) == layouts


def test_converters_at_the_interface_take_up_what_is_between_them():
    model = model_of("""g (float[1, 3, 4, 5] x) => (float[1, 3, 4, 5] y) {
        t = Transpose <perm = [0, 2, 3, 1]> (x)
        r = Relu (t)
        y = Transpose <perm = [0, 3, 1, 2]> (r)
    }""")
    converted = "convert-layouts{inp=[NCHW>NHWC], out=[NCHW>NHWC], keep-interface=true}"
    result = apply(model, f"{converted}, absorb-layouts").model
    assert operators(result.graph) == ["LayoutConverter", "Relu", "LayoutConverter"]
    x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(1, 3, 4, 5)
    np.testing.assert_array_equal(run_model(result, {"x": x})["y"], np.maximum(x, 0))
