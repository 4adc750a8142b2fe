from __future__ import annotations

import pytest

from onnx_passes.graph.constants import constant
from tests.passes.fuse.tools import applied, reasons


def chain(constants: str, inner: str = "y = MatMul (x, a) z = MatMul (y, b)", outputs: str = "float[?,?] z") -> str:
    return f"g (float[N,2] x) => ({outputs}) <{constants}> {{ {inner} }}"


def test_merges_two_constant_matrices():
    (node,) = applied("fuse-matmul", chain("float[2,3] a = {1,2,3,4,5,6}, float[3,2] b = {1,0,0,1,1,1}")).graph
    found = constant(node.inputs[1])
    assert found is not None
    assert found.tolist() == [[4, 5], [10, 11]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (chain("float[2,1] a = {1,2}, float[1,5] b = {1,2,3,4,5}"), "larger"),
        (chain("float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,nan}"), "not constant and finite"),
        (chain("float[2,2] a = {3e38,2,3,4}, float[2,2] b = {3,2,3,1}"), "would not be finite"),
        (
            chain(
                "float[2,2] a = {1,2,3,4}, float[2,2] b = {1,2,3,4}",
                "y = MatMul (x, a) z = MatMul (y, b) q = MatMul (b, a)",
                "float[?,?] z, float[?,?] q",
            ),
            "larger",
        ),
    ],
)
def test_refuses(text: str, reason: str):
    assert reason in reasons("fuse-matmul", text)
