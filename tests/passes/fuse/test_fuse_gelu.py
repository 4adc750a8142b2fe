from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, outcome, reasons

CONSTANTS = """float half = {0.5}, float one = {1}, float root = {1.4142135}, float inverse = {0.70710677},
    float three = {3}, float cubic = {0.044715}, float factor = {0.7978846}"""
EXACT = "s = Div (x, root) e = Erf (s) g = Add (e, one)"
TANH = "p = Pow (x, three) q = Mul (cubic, p) r = Add (x, q) t = Mul (r, factor) u = Tanh (t) g = Add (one, u)"


def gelu(inner: str, constants: str = CONSTANTS, x: str = "float[2,3]", outputs: str = "") -> str:
    return f"g ({x} x) => ({x} z{outputs}) <{constants}> {{ {inner} }}"


@pytest.mark.parametrize(
    "gate",
    [
        EXACT,
        EXACT.replace("Div (x, root)", "Mul (inverse, x)"),
        TANH,
        TANH.replace("Pow (x, three)", "Mul (x, x) p = Mul (w, x)").replace("p = M", "w = M", 1),
    ],
)
@pytest.mark.parametrize(
    "product",
    ["m = Mul (x, g) z = Mul (m, half)", "m = Mul (half, g) z = Mul (m, x)", "m = Mul (half, x) z = Mul (g, m)"],
)  # fmt: skip
def test_every_way_to_write_it(gate: str, product: str):
    (node,) = applied("fuse-gelu", gelu(f"{gate} {product}"), opset=20).graph
    assert node.op_type == "Gelu"
    assert node.attributes.get_string("approximate", "none") == ("tanh" if "Tanh" in gate else "none")


def test_scalars():
    text = gelu(f"{EXACT} m = Mul (x, g) z = Mul (m, half)", x="float")
    assert outcome("fuse-gelu", text, opset=20) == ["Gelu"]


@pytest.mark.parametrize(
    ("text", "opset", "reason"),
    [
        (gelu(f"{EXACT} m = Mul (x, g) z = Mul (m, half)"), 19, "opset 20"),
        (gelu(f"{EXACT} m = Mul (x, g) z = Mul (m, half)", CONSTANTS.replace("1.4142135", "1.41")), 20, "not 1.41421"),
        (gelu(f"{TANH} m = Mul (x, g) z = Mul (m, half)", CONSTANTS.replace("0.0447", "0.0448")), 20, "not 0.044715"),
        (gelu(f"{EXACT} m = Mul (x, g) z = Mul (m, half)", outputs=", float[2,3] g"), 20, "graph output"),
        (gelu(f"{EXACT} m = Mul (x, g) z = Mul (m, half)", CONSTANTS.replace("float half", "float[1,1,1] half"))
         .replace("[2,3] z", "[1,2,3] z"), 20, "not 0.5"),
    ],
)  # fmt: skip
def test_refuses(text: str, opset: int, reason: str):
    assert reason in reasons("fuse-gelu", text, opset=opset)
