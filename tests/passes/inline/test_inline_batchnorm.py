from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, outcome, reasons

PARAMETERS = "float[2] s = {2,-1}, float[2] b = {1,0}, float[2] m = {0.5,1}, float[2] v = {4,0.25}"


def norm(attributes: str = "", constants: str = PARAMETERS, x: str = "float[N,2,3]") -> str:
    return f"g ({x} x) => ({x} y) <{constants}> {{ y = BatchNormalization {attributes} (x, s, b, m, v) }}"


def test_a_factor_and_a_shift_for_each_channel():
    product, total = applied("inline-batchnorm", norm("<epsilon = 0.0>")).graph
    assert (product.op_type, total.op_type) == ("Mul", "Add")
    factors, shifts = constant(product.inputs[1]), constant(total.inputs[1])
    assert factors is not None
    assert shifts is not None
    assert factors.tolist() == [[1.0], [-2.0]]
    assert shifts.tolist() == [[0.5], [2.0]]


@pytest.mark.parametrize("x", ["float[N,2]", "float[1,2,M,M]", "double[3,2,1,2,2]"])
def test_any_rank(x: str):
    constants = PARAMETERS.replace("float", x.split("[", maxsplit=1)[0])
    assert outcome("inline-batchnorm", norm(x=x, constants=constants)) == ["Mul", "Add"]


def test_parameters_of_another_type():
    model = applied("inline-batchnorm", norm("<epsilon = 0.0>", x="float16[N,2,3]"))
    assert {str(value.dtype) for node in model.graph for value in node.inputs if value is not None} == {"FLOAT16"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (norm("<training_mode = 1>"), "training mode"),
        (norm(constants=PARAMETERS.replace("{4,0.25}", "{-1,1}")), "variance"),
        (norm(constants=PARAMETERS.replace("{1,0}", "{1,nan}")), "not constant and finite"),
        (norm("<training_mode = 1>").replace("x) =>", "x, float[2] s) =>"), "training mode"),
        (norm(x="float16[N,2,3]").replace("x) =>", "x, float[2] s) =>"), "not of the type"),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("inline-batchnorm", text)


@pytest.mark.parametrize(("x", "reshapes"), [("float[N,2]", 0), ("float[N,2,3]", 2), ("float[1,2,M,M]", 2)])
def test_parameters_that_a_caller_may_set_are_computed_with(x: str, reshapes: int):
    text = norm("<epsilon = 0.01>", x=x).replace("x) =>", "x, float[2] s, float[2] v) =>")
    assert outcome("inline-batchnorm", text) == [
        *("Add", "Sqrt", "Div", "Mul", "Sub"),
        *["Reshape"] * reshapes,
        *("Mul", "Add"),
    ]


def test_the_long_name_works_too():
    assert outcome("inline-batch-normalization", norm()) == ["Mul", "Add"]
