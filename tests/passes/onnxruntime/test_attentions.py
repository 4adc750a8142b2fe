"""Attention in operators of ONNX Runtime: each case is verified by execution, and each refusal has its reason."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.fuse.tools import applied
from tests.passes.tools import model_of, operators

SPLIT = {
    4: "q3 = Reshape (x, four) k3 = Reshape (y, four) v3 = Reshape (z, four)",
    2: "q3 = Reshape (x, four) k3 = Reshape (y, two) v3 = Reshape (z, two)",
}
TRANSPOSE = """q = Transpose <perm = [0,2,1,3]> (q3) k0 = Transpose <perm = [0,2,1,3]> (k3)
    v0 = Transpose <perm = [0,2,1,3]> (v3)"""
CACHE = "k1 = Concat <axis = 2> (pk, k0) v1 = Concat <axis = 2> (pv, v0)"
REPEAT = """k4 = Unsqueeze (k1, axis) k5 = Expand (k4, twice) k = Reshape (k5, repeated)
    v4 = Unsqueeze (v1, axis) v5 = Expand (v4, twice) v = Reshape (v5, repeated)"""
SCORES = "t = Transpose <perm = [0,1,3,2]> (k) r = MatMul (q, t) s0 = Mul (r, scale)"
MERGE = "o = MatMul (p, v) o4 = Transpose <perm = [0,2,1,3]> (o) out = Reshape (o4, merge)"


def graph(
    *,
    kv: int = 4,
    size: int = 8,
    batch: str = "B",
    queries: str = "S",
    keys: str = "S",
    past: bool = False,
    scale: float = 0.3,
    mask: str = "",
    softmax: str = "p = Softmax <axis = -1> (s)",
    dtype: str = "float",
) -> str:
    """Write an attention of four heads of queries, with so many of keys."""
    inputs = [f"{dtype}[{batch},{queries},{4 * size}] x", *(f"{dtype}[{batch},{keys},{kv * size}] {n}" for n in "yz")]
    outputs = [f"{dtype}[?,?,{4 * size}] out"]
    total = keys
    if past:
        total = "T"
        inputs += [f"{dtype}[{batch},{kv},P,{size}] {name}" for name in ("pk", "pv")]
        outputs += [f"{dtype}[?,{kv},?,{size}] {name}" for name in ("k1", "v1")]
    if mask:
        inputs.append(f"{dtype}[{mask.replace('K', total)}] m")
    cached = CACHE if past else "k1 = Identity (k0) v1 = Identity (v0)"
    repeated = REPEAT if kv == 2 else "k = Identity (k1) v = Identity (v1)"
    masked = "s = Add (s0, m)" if mask else "s = Identity (s0)"
    constants = f"""int64[4] four = {{0,0,4,{size}}}, int64[4] two = {{0,0,2,{size}}},
        int64[3] merge = {{0,0,{4 * size}}}, int64[1] axis = {{2}}, int64[5] twice = {{1,1,2,1,1}},
        int64[4] repeated = {{0,4,-1,{size}}}, {dtype} scale = {{{scale}}}"""
    body = f"{SPLIT[kv]} {TRANSPOSE} {cached} {repeated} {SCORES} {masked} {softmax} {MERGE}"
    return f"g ({', '.join(inputs)}) => ({', '.join(outputs)}) <{constants}> {{ {body} }}"


def fused(pass_: str, text: str, *, opset: int = 17) -> ir.Node:
    pipeline = f"eliminate-identity, shape-inference, {pass_}"
    (node,) = [node for node in applied(pipeline, text, opset=opset).graph if node.domain]
    return node


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        (graph(), 3),
        (graph(keys="K"), 3),
        (graph(mask="B,1,S,K"), 6),
        (graph(mask="S,K"), 6),
        (graph(mask="B,1,1,K"), 6),
        (graph(mask="4,S,K"), 6),
        (graph(past=True), 8),
        (graph(past=True, mask="B,1,S,K"), 8),
    ],
)
@pytest.mark.parametrize("opset", [13, 17])
def test_multi_head_attention(text: str, inputs: int, opset: int):
    node = fused("fuse-multi-head-attention", text, opset=opset)
    assert node.op_type == "MultiHeadAttention"
    assert len(node.inputs) == inputs
    assert node.attributes.get_int("num_heads") == 4
    assert node.attributes.get_float("scale") == pytest.approx(0.3)


def test_the_usual_scale_is_left_out():
    assert "scale" not in fused("fuse-multi-head-attention", graph(scale=8**-0.5)).attributes


@pytest.mark.parametrize(
    "text",
    [
        graph(kv=2),
        graph(kv=2, mask="B,1,S,K"),
        graph(kv=2, mask="1,1,1,K"),
        graph(kv=2, past=True, batch="1"),
        graph(kv=2, past=True, queries="1", keys="1", mask="B,1,1,K"),
        graph(kv=2, batch="2", queries="5", keys="5", mask="2,1,5,K"),
        graph(kv=2, queries="5", keys="5"),
    ],
)
@pytest.mark.parametrize("opset", [13, 17])
def test_group_query_attention(text: str, opset: int):
    node = fused("fuse-group-query-attention", text, opset=opset)
    assert node.op_type == "GroupQueryAttention"
    assert (node.attributes.get_int("num_heads"), node.attributes.get_int("kv_num_heads")) == (4, 2)
    assert node.attributes.get_int("causal") == 0


@pytest.mark.parametrize(
    ("pass_", "text", "opset", "reason"),
    [
        ("fuse-multi-head-attention", graph(kv=2), 17, "queries share keys"),
        ("fuse-multi-head-attention", graph(), 12, "opset 13"),
        ("fuse-multi-head-attention", graph(dtype="float16", scale=1), 17, "single precision"),
        ("fuse-multi-head-attention", graph(softmax="p = Softmax <axis = -2> (s)"), 17, "not over the keys"),
        ("fuse-group-query-attention", graph(), 17, "queries do not share keys"),
        ("fuse-group-query-attention", graph(kv=2, size=4), 17, "multiple of 8"),
        ("fuse-group-query-attention", graph(kv=2, keys="K"), 17, "same sequence"),
        ("fuse-group-query-attention", graph(kv=2, past=True), 17, "several queries"),
    ],
)
def test_refuses(pass_: str, text: str, opset: int, reason: str):
    result = onnx_passes.apply(model_of(text, opset=opset), f"eliminate-identity, shape-inference, {pass_}")
    rules = result.steps[-1].rules
    assert not any(rule.applied for rule in rules)
    assert reason in "; ".join(each for rule in rules for each in rule.refused)


@pytest.mark.parametrize(("pass_", "kv"), [("fuse-multi-head-attention", 4), ("fuse-group-query-attention", 2)])
def test_heads_that_are_rotated_are_merged_and_split_again(pass_: str, kv: int):
    rotated = graph(kv=kv).replace("(q, t)", "(qr, t)").replace("t = Transpose", "qr = Neg (q) t = Transpose")
    model = onnx_passes.apply(model_of(rotated, opset=17), f"simplify, shape-inference, {pass_}, simplify").model
    assert [node.op_type for node in model.graph if node.domain] == [
        "MultiHeadAttention" if kv == 4 else "GroupQueryAttention"
    ]
    assert operators(model.graph)[-1].endswith("Attention")


def test_group_fuses_all_of_a_layer():
    text = (
        graph().replace("out = Reshape", "u = Reshape").replace("merge) }", "merge) w = Add (u, x) out = Sigmoid (w) }")
    )
    left = operators(onnx_passes.apply(model_of(text, opset=17), "simplify, fuse-onnxruntime").model.graph)
    assert left == ["MultiHeadAttention", "Add", "Sigmoid"]


def test_results_run_at_the_default_level_of_onnx_runtime():
    import onnxruntime

    model = model_of(graph(kv=2, mask="B,1,S,K"), opset=17)
    made = onnx_passes.apply(model, "simplify, fuse-onnxruntime").model
    assert "GroupQueryAttention" in operators(made.graph)
    random = np.random.default_rng(0)
    shapes = {"x": (2, 5, 32), "y": (2, 5, 16), "z": (2, 5, 16), "m": (2, 1, 5, 5)}
    feeds = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    before, after = (
        onnxruntime.InferenceSession(ir.to_proto(each).SerializeToString()).run(None, feeds)[0]
        for each in (model, made)
    )
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
