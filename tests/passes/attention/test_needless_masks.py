"""Causal masks in all spellings: each becomes an attribute, verified by execution, or stays with its reason."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from tests.passes.fuse.tools import applied
from tests.passes.tools import model_of, operators

HEADS = "float[B,4,S,8] q, float[B,4,S,8] k, float[B,4,S,8] v"
PLACES = """size = Shape <start = 2, end = 3> (q) count = Squeeze (size) places = Range (zero, count, one)
    row = Unsqueeze (places, last) column = Unsqueeze (places, first)"""
SQUARE = "size = Shape <start = 2, end = 3> (q) square = Concat <axis = 0> (size, size)"
ONES = f"{SQUARE} zeros = ConstantOfShape (square) ones = Add (zeros, unit)"
BUFFER = ",".join(str(int(column <= row)) for row in range(9) for column in range(9))
CONSTANTS = f"""int64 zero = {{0}}, int64 one = {{1}}, int64 three = {{3}}, int64[1] first = {{0}},
    int64[1] last = {{1}},
    float null = {{0}}, float unit = {{1}}, float lowest = {{-1e30}}, float low = {{-1000}}, bool yes = {{1}},
    float[1,1,9,9] buffer = {{{BUFFER}}}, int64[2] origin = {{0,0}}, int64[2] axes = {{2,3}}"""


def attention(mask: str, inputs: str = HEADS, outputs: str = "float[?,?,?,?] out") -> str:
    return f"""g ({inputs}) => ({outputs}) <{CONSTANTS}> {{ t = Transpose <perm = [0,1,3,2]> (k)
        r = MatMul (q, t) {mask} p = Softmax <axis = -1> (s) out = MatMul (p, v) }}"""


def with_infinity(text: str) -> ir.Model:
    """ONNX text has no infinity."""
    model = model_of(text, opset=23, ir_version=11)
    model.graph.initializers["lowest"].const_value = ir.Tensor(np.array(-np.inf, np.float32), name="lowest")
    return model


@pytest.mark.parametrize(
    "mask",
    [
        f"{PLACES} m = LessOrEqual (column, row) s = Where (m, r, lowest)",
        f"{PLACES} m = GreaterOrEqual (row, column) w = Where (m, null, lowest) s = Add (w, r)",
        f"{PLACES} m = Greater (column, row) s = Where (m, lowest, r)",
        f"{PLACES} m = Less (row, column) w = Where (m, lowest, null) s = Add (r, w)",
        f"{PLACES} next = Add (one, row) m = Less (column, next) s = Where (m, r, lowest)",
        f"{PLACES} a = Greater (column, row) n = Not (a) m = And (n, yes) s = Where (m, r, lowest)",
        f"{PLACES} a = LessOrEqual (column, row) f = Cast <to = 1> (a) n = Sub (unit, f) w = Mul (n, lowest) "
        "s = Add (r, w)",
        f"{ONES} f = Trilu <upper = 0> (ones) m = Cast <to = 9> (f) s = Where (m, r, lowest)",
        f"{ONES} f = Mul (ones, lowest) w = Trilu <upper = 1> (f, one) s = Add (r, w)",
        f"{SQUARE} b = Slice (buffer, origin, square, axes) m = Equal (b, null) s = Where (m, lowest, r)",
    ],
)
def test_a_causal_mask_becomes_an_attribute(mask: str):
    model = applied("fuse-attention", attention(mask), opset=23, sizes={"B": 2, "S": 5})
    (node,) = model.graph
    assert node.op_type == "Attention"
    assert node.attributes.get_int("is_causal") == 1
    assert len(node.inputs) == 3


def test_minus_infinity_leaves_each_query_its_own_key():
    text = attention(f"{PLACES} m = LessOrEqual (column, row) w = Where (m, null, lowest) s = Add (w, r)")
    assert operators(onnx_passes.apply(with_infinity(text), "fuse-attention").model.graph) == ["Attention"]
    beyond = text.replace("LessOrEqual", "Less")
    assert "MatMul" in operators(onnx_passes.apply(with_infinity(beyond), "fuse-attention").model.graph)


def test_a_constant_mask():
    triangle = ",".join("0" if column <= row else "-1e30" for row in range(3) for column in range(3))
    text = attention("s = Add (r, c)", HEADS.replace("S", "3")).replace(
        "<int64 zero", f"<float[3,3] c = {{{triangle}}}, int64 zero"
    )
    (node,) = applied("fuse-attention", text, opset=23).graph
    assert node.attributes.get_int("is_causal") == 1


PAST = "float[B,4,S,8] q, float[B,4,S,8] nk, float[B,4,S,8] nv, float[B,4,P,8] pk, float[B,4,P,8] pv"
CACHED = """before = Shape <start = 2, end = 3> (pk) start = Squeeze (before) size = Shape <start = 2, end = 3> (q)
    count = Squeeze (size) end = Add (start, count) keys = Range (zero, end, one)
    queries = Range (start, end, one) row = Unsqueeze (queries, last) column = Unsqueeze (keys, first)"""


def cached(mask: str) -> str:
    concat = "k = Concat <axis = 2> (pk, nk) v = Concat <axis = 2> (pv, nv)"
    outputs = "float[?,?,?,?] out, float[?,?,?,?] k, float[?,?,?,?] v"
    return attention(f"{CACHED} {mask}", PAST, outputs).replace("{ t =", f"{{ {concat} t =")


def test_places_behind_a_past_are_counted_from_its_end():
    text = cached("m = LessOrEqual (column, row) s = Where (m, r, lowest)")
    (node,) = applied("fuse-attention", text, opset=23, sizes={"B": 2, "S": 3, "P": 4}).graph
    assert node.attributes.get_int("is_causal") == 1
    assert [value and value.name for value in node.inputs] == ["q", "nk", "nv", None, "pk", "pv"]


def test_an_attention_that_is_there():
    text = f"""g ({HEADS}) => (float[?,?,?,?] out) <{CONSTANTS}> {{ {PLACES} m = LessOrEqual (column, row)
        out = Attention <scale = 0.5> (q, k, v, m) }}"""
    (node,) = applied("fuse-attention", text, opset=23, sizes={"B": 2, "S": 5}).graph
    assert {name: each.value for name, each in node.attributes.items()} == {"scale": 0.5, "is_causal": 1}


@pytest.mark.parametrize(
    ("mask", "inputs", "reason"),
    [
        (f"{PLACES} m = Less (column, row) s = Where (m, r, lowest)", "", "diagonal"),
        (f"{PLACES} next = Add (row, three) m = LessOrEqual (column, next) s = Where (m, r, lowest)", "", "diagonal"),
        (f"{PLACES} m = GreaterOrEqual (column, row) s = Where (m, r, lowest)", "", "diagonal"),
        (f"{PLACES} m = LessOrEqual (column, row) s = Where (m, lowest, r)", "", "far below"),
        (f"{PLACES} m = LessOrEqual (column, row) w = Where (m, null, low) s = Add (r, w)", "", "far below"),
        (f"{PLACES} m = LessOrEqual (column, row) w = Where (m, unit, lowest) s = Add (r, w)", "", "far below"),
        (f"{PLACES} a = LessOrEqual (column, row) m = And (a, pad) s = Where (m, r, lowest)", ", bool[B,1,1,S] pad",
         "positions of queries and keys"),
        (f"{PLACES} a = LessOrEqual (column, row) b = Add (column, three) c = GreaterOrEqual (b, row) m = And (a, c) "
         "s = Where (m, r, lowest)", "", "positions of queries and keys"),
        ("s = Add (r, pad)", ", float[S,S] pad", "positions of queries and keys"),
    ],
)  # fmt: skip
def test_other_masks_stay(mask: str, inputs: str, reason: str):
    model = model_of(attention(mask, HEADS + inputs), opset=23, ir_version=11)
    result = onnx_passes.apply(model, "fuse-attention")
    (node,) = [node for node in result.model.graph if node.op_type == "Attention"]
    assert node.inputs[3] is not None
    assert reason in str([rule.refused for step in result.steps for rule in step.rules])


def test_a_past_of_another_length_is_another_diagonal():
    mask = "m = LessOrEqual (column, row) s = Where (m, r, lowest)"
    text = (
        cached(mask)
        .replace("queries = Range (start,", "queries = Range (zero,")
        .replace("(zero, end, one) row", "(zero, count, one) row")
    )
    result = onnx_passes.apply(model_of(text, opset=23, ir_version=11), "fuse-attention")
    assert "diagonal" in str([rule.refused for step in result.steps for rule in step.rules])


FLAT = "float[B,S,32] x, float[B,S,{}] y, float[B,S,{}] z"


@pytest.mark.parametrize(("pass_", "kv"), [("fuse-multi-head-attention", 4), ("fuse-group-query-attention", 2)])
def test_attentions_of_onnx_runtime(pass_: str, kv: int):
    repeat = """k4 = Unsqueeze (k, two) k5 = Expand (k4, twice) kr = Reshape (k5, back)
        v4 = Unsqueeze (v, two) v5 = Expand (v4, twice) vr = Reshape (v5, back)"""
    keys, values = ("kr", "vr") if kv == 2 else ("k", "v")
    text = f"""g ({FLAT.format(8 * kv, 8 * kv)}) => (float[?,?,?] out) <{CONSTANTS}, int64[4] all = {{0,0,4,8}},
        int64[4] some = {{0,0,{kv},8}}, int64[3] merge = {{0,0,32}}, int64[1] two = {{2}},
        int64[5] twice = {{1,1,2,1,1}}, int64[4] back = {{0,4,-1,8}}> {{
        q3 = Reshape (x, all) q = Transpose <perm = [0,2,1,3]> (q3) k3 = Reshape (y, some)
        k = Transpose <perm = [0,2,1,3]> (k3) v3 = Reshape (z, some) v = Transpose <perm = [0,2,1,3]> (v3)
        {repeat if kv == 2 else ""} {PLACES} t = Transpose <perm = [0,1,3,2]> ({keys}) r = MatMul (q, t)
        m = LessOrEqual (column, row) s = Where (m, r, lowest) p = Softmax <axis = -1> (s) o = MatMul (p, {values})
        o3 = Transpose <perm = [0,2,1,3]> (o) out = Reshape (o3, merge) }}"""
    model = applied(pass_, text, opset=17, sizes={"B": 2, "S": 5})
    (node,) = [node for node in model.graph if node.domain]
    assert "LessOrEqual" not in operators(model.graph)
    assert node.attributes.get_int("unidirectional", 0) == 1 or "causal" not in node.attributes
