from __future__ import annotations

import pytest

from tests.passes.fuse.tools import applied, reasons


@pytest.mark.parametrize(
    ("inner", "inputs"),
    [
        ("RotaryEmbedding (x, c, s)", "float[B,2,S,8] x, float[B,S,4] c, float[B,S,4] s"),
        (
            "RotaryEmbedding <interleaved = 1, rotary_embedding_dim = 4> (x, c, s)",
            "float[B,2,S,8] x, float[B,S,2] c, float[B,S,2] s",
        ),
        (
            "RotaryEmbedding <num_heads = 2, interleaved = 1> (x, c, s)",
            "float[B,S,16] x, float[B,S,4] c, float[B,S,4] s",
        ),
        (
            "RotaryEmbedding <num_heads = 2, rotary_embedding_dim = 6> (x, c, s)",
            "float[B,S,16] x, float[B,S,3] c, float[B,S,3] s",
        ),
        ("RotaryEmbedding (x, c, s, i)", "float[B,2,S,8] x, float[4,4] c, float[4,4] s, int64[B,S] i"),
    ],
)
def test_lowers(inner: str, inputs: str):
    output = "float[?,?,?] y" if "num_heads" in inner else "float[?,?,?,?] y"
    gathered = inner.endswith("i)")
    text = f"g ({inputs}) => ({output}) {{ y = {inner} }}"
    if gathered:
        text = text.replace(", int64[B,S] i", ", int64[B,S] j").replace("y =", "z = Sub (j, j) i = Identity (z) y =")
    model = applied("lower-rotary-embedding", text, opset=23, sizes={"B": 2, "S": 3, "T": 5, "P": 4})
    operators = [node.op_type for node in model.graph]
    assert "RotaryEmbedding" not in operators
    assert operators.count("Mul") == 4
    assert gathered == ("Gather" in operators)


def test_refuses_unknown_sizes():
    text = (
        "g (float[B,2,S,D] x, float[B,S,4] c, float[B,S,4] s) => (float[?,?,?,?] y) { y = RotaryEmbedding (x, c, s) }"
    )
    assert "not known" in reasons("lower-rotary-embedding", text, opset=23)
