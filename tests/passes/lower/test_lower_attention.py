from __future__ import annotations

import pytest

from tests.helpers.thorough import some
from tests.passes.fuse.tools import applied, reasons

HEADS = "float[B,4,S,8] q, float[B,{0},T,8] k, float[B,{0},T,6] v"
CASES = [
    ("out = Attention (q, k, v)", HEADS.format(4)),
    ("out = Attention <is_causal = 1, softcap = 2.0> (q, k, v)", HEADS.format(2)),
    ("out = Attention <is_causal = 1> (q, k, v, m)", HEADS.format(1) + ", bool[B,1,S,T] m"),
    ("out = Attention <scale = 0.3> (q, k, v, m)", HEADS.format(4) + ", float[S,T] m"),
    (
        "out, present, other = Attention <is_causal = 1> (q, k, v, , pk, pv)",
        HEADS.format(2) + ", float[B,2,P,8] pk, float[B,2,P,6] pv",
    ),
    (
        "out = Attention <q_num_heads = 4, kv_num_heads = 2> (q, k, v)",
        "float[B,S,32] q, float[B,T,16] k, float[B,T,12] v",
    ),
    (
        "out = Attention <softmax_precision = 1> (q, k, v)",
        HEADS.format(4).replace("float", "float16"),
    ),
]


def attention(inner: str, inputs: str) -> str:
    kind, dims = (
        ("float16", "?,?,?,?") if "float16" in inputs else ("float", "?,?,?" if "q_num" in inner else "?,?,?,?")
    )
    outputs = [f"{kind}[{dims}] out", *(f"float[?,?,?,?] {name}" for name in ("present", "other") if name in inner)]
    return f"g ({inputs}) => ({', '.join(outputs)}) {{ {inner} }}"


@pytest.mark.parametrize(("inner", "inputs"), CASES)
def test_lowers(inner: str, inputs: str):
    model = applied("lower-attention", attention(inner, inputs), opset=23, sizes={"B": 2, "S": 3, "T": 5, "P": 4})
    operators = [node.op_type for node in model.graph]
    assert "Attention" not in operators
    assert operators.count("MatMul") == 2


@pytest.mark.parametrize(("inner", "inputs"), some([case for case in CASES if "causal" not in case[0]], every=2))
def test_is_fused_again(inner: str, inputs: str):
    model = applied(
        "lower-attention, shape-inference, fuse-attention",
        attention(inner, inputs),
        opset=23,
        sizes={"B": 2, "S": 3, "T": 5, "P": 4},
    )
    assert [node.op_type for node in model.graph].count("Attention") == 1
    assert "Softmax" not in [node.op_type for node in model.graph]


@pytest.mark.parametrize(
    ("inner", "inputs", "reason"),
    [
        ("out, , , scores = Attention (q, k, v)", HEADS.format(4), "scores"),
        ("out = Attention (q, k, v)", "float[B,H,S,8] q, float[B,H,T,8] k, float[B,H,T,8] v", "not known"),
        ("out = Attention (q, k, v)", HEADS.format(4).replace("float", "double"), "half precision"),
    ],
)
def test_refuses(inner: str, inputs: str, reason: str):
    text = attention(inner, inputs)
    if "scores" in inner:
        text = text.replace("out)", "out, float[?,?,?,?] scores)", 1)
    if "double" in inputs:
        text = text.replace("float[", "double[")
    assert reason in reasons("lower-attention", text, opset=23)
