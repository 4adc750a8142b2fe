from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, reasons

CONSTANTS = "float[4] g = {1, 2, -1, 0.5}, float[4] b = {0, 1, 2, 3}, float[4] c = {3, 1, 2, -3}"


def graph(body: str, *, x: str = "float[2,3,4]", skip: str = "", outputs: str = "", constants: str = CONSTANTS) -> str:
    return f"m ({x} x, {skip or x} s) => ({x} y{outputs}) <{constants}> {{ {body} }}"


SUM = "t = Add (x, s) "
NORM = "y = LayerNormalization (t, g, b)"


@pytest.mark.parametrize(
    ("body", "operator", "inputs"),
    [
        (SUM + NORM, "SkipLayerNormalization", ["x", "s", "g", "b"]),
        (SUM + "y = LayerNormalization <axis = 2> (t, g)", "SkipLayerNormalization", ["x", "s", "g"]),
        (SUM + "y = RMSNormalization (t, g)", "SkipSimplifiedLayerNormalization", ["x", "s", "g"]),
        ("p = Add (c, x) t = Add (s, p) " + NORM, "SkipLayerNormalization", ["x", "s", "g", "b", "c"]),
        (
            "p = Add (s, c) t = Add (x, p) y = LayerNormalization (t, g)",
            "SkipLayerNormalization",
            ["s", "x", "g", None, "c"],
        ),
        (
            "p = Add (x, c) t = Add (p, s) y = RMSNormalization (t, g)",
            "SkipSimplifiedLayerNormalization",
            ["x", "s", "g", "c"],
        ),
    ],
)
@pytest.mark.parametrize("shape", ["2,3,4", "N,4"])
def test_fuses(body: str, operator: str, inputs: list[str | None], shape: str):
    if shape == "N,4" and "axis = 2" in body:
        body = body.replace("axis = 2", "axis = 1")
    (node,) = applied("fuse-skip-layernorm", graph(body, x=f"float[{shape}]"), opset=23).graph
    assert (node.domain, node.op_type) == ("com.microsoft", operator)
    assert [value and value.name for value in node.inputs] == inputs
    assert node.attributes.get_float("epsilon") == pytest.approx(1e-5)


def test_sum_that_is_used_elsewhere_is_a_result():
    model = applied("fuse-skip-layernorm", graph(SUM + NORM + " z = Neg (t)", outputs=", float[2,3,4] z"), opset=17)
    fused, neg = model.graph
    assert [bool(output.name) for output in fused.outputs] == [True, False, False, True]
    assert neg.inputs[0] is fused.outputs[3]


def test_chain_of_skip_connections():
    body = f"{SUM}{NORM.replace('y =', 'u =')} v = Add (t, u) y = LayerNormalization <epsilon = 0.01> (v, g)"
    model = applied("fuse-skip-layernorm", graph(body), opset=17)
    assert [node.op_type for node in model.graph] == ["SkipLayerNormalization"] * 2
    assert model.graph[1].attributes.get_float("epsilon") == pytest.approx(0.01)


@pytest.mark.parametrize("operator", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("shape", ["2,4", "1,3,4", "N,3,4"])
def test_biases_and_forks_one_behind_another(operator: str, shape: str):
    body = f"""p = Add (x, c) q = Add (p, s) y = LayerNormalization <axis = -1> (q, g, b)
        r = Add (y, s) z = {operator} <epsilon = 0.01> (r, g) w = Neg (r)"""
    text = graph(body, x=f"float[{shape}]", outputs=f", float[{shape}] z, float[{shape}] w")
    left = [node.op_type for node in applied("fuse-skip-layernorm", text, opset=23).graph]
    second = "SkipSimplifiedLayerNormalization" if operator[0] == "R" else "SkipLayerNormalization"
    assert left == ["SkipLayerNormalization", second, "Neg"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (graph(SUM + "y = LayerNormalization <axis = 1> (t, h)", constants="float[3,4] h = {1,1,1,1,1,1,1,1,1,1,1,1}"),
         "last axis alone"),
        (graph(SUM + NORM, skip="float[4]"), "same known shape"),
        (graph(SUM + NORM, skip="float[2,1,4]"), "same known shape"),
        (graph(SUM + NORM, x="float[1,2,3,4]"), "two or three dimensions"),
        (graph(SUM + "y, mean = LayerNormalization (t, g, b)", outputs=", float[2,3,1] mean"), "deviation are used"),
        (graph(SUM + "k = ReduceMean <keepdims = 0> (t, a) " + "y = LayerNormalization (t, k)",
               constants="int64[2] a = {0, 1}"), "computed"),
        (graph(SUM + "y = LayerNormalization (t, h)", constants="float[1] h = {2}"), "not a vector along"),
    ],
)  # fmt: skip
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-skip-layernorm", text, opset=18)
