from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from tests.passes.fuse.tools import applied, reasons

SIZES = {"B": 2, "S": 3}
ENDS = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] end = {1000}"
CONSTANTS = (
    f"<{ENDS}, int64[1] three = {{3}}, int64[1] last = {{-1}}, int64[4] split = {{0,0,2,8}}, float half = {{0.5}}>"
)
ANGLES = "e = Concat <axis = -1> (f, f) c3 = Cos (e) s3 = Sin (e) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one)"
HALVES = """a = Slice (x, zero, four, three) b = Slice (x, four, end, three) n = Neg (b) t = Concat <axis = -1> (n, a)
    p = Mul (x, c) q = Mul (t, s) y = Add (p, q)"""
PAIRS = """a = Slice (x, zero, end, three, two) b = Slice (x, one, end, three, two) n = Neg (b) n5 = Unsqueeze (n, last)
    a5 = Unsqueeze (a, last) t5 = Concat <axis = -1> (n5, a5) t = Reshape (t5, target) p = Mul (x, c) q = Mul (t, s)
    y = Add (p, q)"""


def rotary(inner: str, inputs: str = "float[B,2,S,8] x, float[B,S,4] f", output: str = "float[?,?,?,?] y") -> str:
    return f"g ({inputs}) => ({output}) {CONSTANTS} {{ {inner} }}"


def fused(text: str) -> ir.Node:
    """Return the one RotaryEmbedding that is left."""
    model = applied("fuse-rotary-embedding", text, opset=23, sizes=SIZES)
    (node,) = [node for node in model.graph if node.op_type == "RotaryEmbedding"]
    assert not {"Neg", "Add", "Mul"} & {node.op_type for node in model.graph}
    return node


def attributes(node: ir.Node) -> dict[str, object]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def test_halves():
    assert not fused(rotary(f"{ANGLES} {HALVES}")).attributes


def test_products_and_sums_in_any_order():
    inner = HALVES.replace("Mul (x, c)", "Mul (c, x)").replace("Mul (t, s)", "Mul (s, t)").replace("(p, q)", "(q, p)")
    assert not fused(rotary(f"{ANGLES} {inner}")).attributes


def test_angles_for_one_of_a_batch():
    node = fused(rotary(f"{ANGLES} {HALVES}", "float[B,2,S,8] x, float[1,S,4] f"))
    assert [value.producer().op_type for value in node.inputs[1:] if value and value.producer()] == ["Expand", "Expand"]


def test_angles_that_are_looked_up():
    inputs = "float[B,2,S,8] x, int64[B,S] i"
    table = ",".join(str(round(float(np.sin(row * (column % 4 + 1))), 3)) for row in range(5) for column in range(8))
    inner = f"c3 = Gather (w, i) s3 = Gather (w, i) c = Unsqueeze (c3, one) s = Unsqueeze (s3, one) {HALVES}"
    text = rotary(inner, inputs).replace(ENDS, f"float[5,8] w = {{{table}}}, {ENDS}")
    node = fused(text)
    assert node.inputs[1] is not None
    assert node.inputs[1].producer().op_type == "Gather"


def test_some_elements_of_each_head():
    inner = f"""{ANGLES} z = Slice (x, zero, four, three) rest = Slice (x, four, end, three)
        a = Slice (z, zero, two, three) b = Slice (z, two, end, three) n = Neg (b) t = Concat <axis = -1> (n, a)
        p = Mul (z, c) q = Mul (t, s) r = Add (p, q) y = Concat <axis = 3> (r, rest)"""
    node = fused(rotary(inner, "float[B,2,S,8] x, float[B,S,2] f"))
    assert attributes(node) == {"rotary_embedding_dim": 4}
    assert [value.name for value in node.inputs[:1] if value] == ["x"]


def test_neighbours_of_heads_behind_positions():
    twice = "{0} = Unsqueeze (f, axes) {0}w = Expand ({0}, pairs) {0}r = Reshape ({0}w, each)"
    inner = f"x = Reshape (w, split) {twice.format('g')} c = Cos (gr) s = Sin (gr) {PAIRS}"
    more = "int64[2] axes = {2,4}, int64[5] pairs = {1,1,1,1,2}, int64[4] each = {0,0,1,8}, int64[4] target = {0,0,0,8}"
    text = rotary(inner, "float[B,S,16] w, float[B,S,4] f").replace("<int64[1] zero", f"<{more}, int64[1] zero")
    node = fused(text)
    assert attributes(node) == {"interleaved": 1, "num_heads": 2}
    assert [value.name for value in node.inputs[:1] if value] == ["w"]


@pytest.mark.parametrize(
    ("inner", "inputs", "reason"),
    [
        (HALVES.replace("Slice (x, zero, four, three)", "Slice (x, four, end, three)"), "", "of halves"),
        (HALVES.replace("(n, a)", "(a, n)"), "", ""),
        (HALVES.replace("Neg (b)", "Neg (a)").replace("(n, a)", "(n, b)"), "", "of halves"),
        (HALVES.replace("Mul (x, c)", "Mul (o, c)"), "float[B,2,S,8] o", "do not multiply the same value"),
        (HALVES.replace("y = Add", "k = Neg (p) y = Add"), "", "used elsewhere"),
        (HALVES, "float[B,2,S,8] c", "same for all heads"),
        (HALVES, "float[B,1,S,8] c", "both elements of a pair"),
    ],
)
def test_refuses(inner: str, inputs: str, reason: str):
    angles = ANGLES.replace("c = Unsqueeze (c3, one)", "") if " c" in inputs else ANGLES
    if inputs.endswith("2,S,8] c"):
        angles, inputs = "", f"{inputs}, float[B,2,S,8] s"
    given = "float[B,2,S,8] x, float[B,S,4] f" + (f", {inputs}" if inputs else "")
    outputs = "float[?,?,?,?] y, float[?,?,?,?] k" if "k = Neg" in inner else "float[?,?,?,?] y"
    text = rotary(f"{angles} {inner}", given, outputs)
    if not reason:
        with pytest.raises(AssertionError):
            reasons("fuse-rotary-embedding", text, opset=23)
        return
    assert reason in reasons("fuse-rotary-embedding", text, opset=23)


def test_refuses_old_opsets():
    assert "opset 23: run modernize" in reasons("fuse-rotary-embedding", rotary(f"{ANGLES} {HALVES}"), opset=22)


def test_rotates_in_front_of_the_split():
    inner = "x4 = Reshape (w, split) x = Transpose <perm = [0,2,1,3]> (x4) y = RotaryEmbedding (x, c, s)"
    text = rotary(inner, "float[B,S,16] w, float[B,S,4] c, float[B,S,4] s")
    model = applied("fuse-rotary-embedding", text, opset=23, sizes=SIZES)
    assert [node.op_type for node in model.graph] == ["RotaryEmbedding", "Reshape", "Transpose"]


def test_each_of_a_batch_gets_its_angles():
    text = rotary("y = RotaryEmbedding (x, c, s)", "float[B,2,S,8] x, float[1,S,4] c, float[1,S,4] s")
    model = applied("fuse-rotary-embedding", text, opset=23, sizes={"B": 1, "S": 3})
    assert [node.op_type for node in model.graph].count("Expand") == 2
    feeds = {"x": np.ones((2, 2, 3, 8), np.float32), **dict.fromkeys("cs", np.ones((1, 3, 4), np.float32))}
    (found,) = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString()).run(None, feeds)
    assert found.shape == (2, 2, 3, 8)
