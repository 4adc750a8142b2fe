from __future__ import annotations

import pytest

import onnx_passes
from tests.passes.fuse.tools import applied, reasons
from tests.passes.tools import model_of, operators

CONSTANTS = """float half = {0.5}, float one = {1}, float root = {1.4142135}, float three = {3},
    float cubic = {0.044715}, float factor = {0.7978846}, float[3] b = {0.5, -1, 2}, float c = {1.702}"""
ERF = "s = Div (x, root) e = Erf (s) g = Add (e, one) m = Mul (x, g) y = Mul (m, half)"
TANH = """p = Pow (x, three) q = Mul (cubic, p) r = Add (x, q) t = Mul (r, factor) u = Tanh (t) g = Add (one, u)
    m = Mul (half, x) y = Mul (m, g)"""


def graph(body: str, *, x: str = "float[2,3]", constants: str = CONSTANTS, outputs: str = "") -> str:
    return f"g ({x} x) => ({x} y{outputs}) <{constants}> {{ {body} }}"


def of_sum(body: str) -> str:
    return body.replace("(x,", "(v,").replace("half, x)", "half, v)")


@pytest.mark.parametrize(
    ("pass_", "body", "opset", "left"),
    [
        ("fuse-microsoft-gelu", ERF, 17, ["Gelu"]),
        ("fuse-microsoft-gelu", TANH, 17, ["FastGelu"]),
        ("fuse-fast-gelu", 'y = Gelu <approximate = "tanh"> (x)', 20, ["FastGelu"]),
        ("fuse-fast-gelu", 's = Add (b, x) y = Gelu <approximate = "tanh"> (s)', 20, ["FastGelu"]),
        ("fuse-bias-gelu", "s = Add (b, x) y = Gelu (s)", 20, ["BiasGelu"]),
        ("fuse-quick-gelu", "m = Mul (x, c) s = Sigmoid (m) y = Mul (s, x)", 17, ["QuickGelu"]),
        ("fuse-quick-gelu", "s = Sigmoid (x) y = Mul (x, s)", 17, ["QuickGelu"]),
        ("fuse-quick-gelu", "y = Swish <alpha = 0.5> (x)", 24, ["QuickGelu"]),
        ("fuse-microsoft-gelu, fuse-bias-gelu", f"v = Add (x, b) {of_sum(ERF)}", 17, ["BiasGelu"]),
        ("fuse-microsoft-gelu, fuse-fast-gelu", f"v = Add (x, b) {of_sum(TANH)}", 17, ["FastGelu"]),
    ],
)
def test_fuses(pass_: str, body: str, opset: int, left: list[str]):
    model = applied(pass_, graph(body), opset=opset)
    assert [node.op_type for node in model.graph] == left
    assert all(node.domain == "com.microsoft" for node in model.graph)
    assert model.opset_imports["com.microsoft"] == 1


def test_factor_of_the_sigmoid_is_kept():
    (node,) = applied("fuse-quick-gelu", graph("m = Mul (x, c) s = Sigmoid (m) y = Mul (s, x)")).graph
    assert node.attributes.get_float("alpha") == pytest.approx(1.702)


@pytest.mark.parametrize(
    ("pass_", "text", "opset", "reason"),
    [
        ("fuse-microsoft-gelu", graph(ERF), 20, "ONNX has Gelu"),
        ("fuse-microsoft-gelu", graph(ERF, constants=CONSTANTS.replace("1.4142135", "1.5")), 17, "not 1.41421"),
        ("fuse-microsoft-gelu", graph(ERF, outputs=", float[2,3] g"), 17, "graph output"),
        ("fuse-fast-gelu", graph("y = Gelu (x)"), 20, "exact Gelu"),
        ("fuse-bias-gelu", graph('s = Add (x, b) y = Gelu <approximate = "tanh"> (s)'), 20, "approximated"),
        ("fuse-bias-gelu", graph("s = Add (x, c) y = Gelu (s)"), 20, "no bias"),
        ("fuse-bias-gelu", graph("s = Add (x, x) y = Gelu (s)"), 20, "no bias"),
        (
            "fuse-bias-gelu",
            graph("s = Add (x, b) y = Gelu (s)", x="double[2,3]", constants="double[3] b = {0.5, -1, 2}"),
            20,
            "single precision",
        ),
        ("fuse-quick-gelu", graph("m = Mul (x, b) s = Sigmoid (m) y = Mul (s, x)"), 17, "not a constant number"),
    ],
)
def test_refuses(pass_: str, text: str, opset: int, reason: str):
    assert reason in reasons(pass_, text, opset=opset)


def test_standard_models_stay_standard():
    model = onnx_passes.apply(
        model_of(graph("s = Add (x, b) t = Identity (s) y = Gelu (t)"), opset=20), "simplify"
    ).model
    assert operators(model.graph) == ["Add", "Gelu"]
