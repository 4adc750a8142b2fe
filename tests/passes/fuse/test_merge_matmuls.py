from __future__ import annotations

import numpy as np
import pytest

from tests.passes.fuse.tools import applied, outcome, reasons

WEIGHTS = """float[3,2] a = {1, 2, 3, 4, 5, 6}, float[3,4] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0.5, 0.25, -1},
    float[3,1] c = {1, -1, 2}, float[2] p = {1, 2}, float[4] q = {4, 3, 2, 1}, float r = {7}"""


def siblings(nodes: str, x: str = "N,5,3", weights: str = WEIGHTS) -> str:
    lead = x.rpartition(",")[0]
    results = ", ".join(f"float[{lead},{size}] {name}" for name, size in (("u", 2), ("v", 4), ("w", 1)))
    return f"g (float[{x}] x) => ({results}) <{weights}> {{ {nodes} }}"


PLAIN = "u = MatMul (x, a) v = MatMul (x, b) w = MatMul (x, c)"
BIASED = "d = MatMul (x, a) u = Add (d, p) e = MatMul (x, b) v = Add (q, e) f = MatMul (x, c) w = Add (f, r)"


def test_products_become_one_that_is_split():
    model = applied("merge-matmuls", siblings(PLAIN))
    product, split = model.graph
    assert (product.op_type, split.op_type) == ("MatMul", "Split")
    weights, sizes = (value.const_value for value in (product.inputs[1], split.inputs[1]) if value is not None)
    assert weights is not None
    assert sizes is not None
    assert weights.numpy().tolist() == [[1, 2, 1, 2, 3, 4, 1], [3, 4, 5, 6, 7, 8, -1], [5, 6, 9, 0.5, 0.25, -1, 2]]
    assert sizes.numpy().tolist() == [2, 4, 1]
    assert [value.name for value in split.outputs] == ["u", "v", "w"]


def test_biases_are_added_before_the_result_is_split():
    model = applied("merge-matmuls", siblings(BIASED))
    assert [node.op_type for node in model.graph] == ["MatMul", "Add", "Split"]
    bias = next(value for value in model.graph[1].inputs if value is not None and value.const_value is not None)
    assert bias.const_value is not None
    np.testing.assert_array_equal(bias.const_value.numpy(), [1, 2, 4, 3, 2, 1, 7])


def test_a_bias_that_not_all_have_is_added_to_its_part():
    nodes = "u = MatMul (x, a) e = MatMul (x, b) v = Add (q, e) w = MatMul (x, c)"
    assert outcome("merge-matmuls", siblings(nodes)) == ["MatMul", "Split", "Add"]


@pytest.mark.parametrize("opset", [11, 13])
def test_gemms_with_equal_attributes(opset: int):
    weights = WEIGHTS.replace("float[3,2] a", "float[2,3] a").replace("float[3,4] b", "float[4,3] b")
    nodes = """u = Gemm <transB = 1, alpha = 0.5> (x, a, p) v = Gemm <transB = 1, alpha = 0.5> (x, b, q)
        w = MatMul (x, c)"""
    assert outcome("merge-matmuls", siblings(nodes, "N,3", weights), opset=opset) == ["Gemm", "Split", "MatMul"]


def test_what_reads_the_first_part_may_come_before_the_last_product():
    nodes = "d = MatMul (x, a) u = Relu (d) v = MatMul (x, b) w = MatMul (x, c)"
    assert sorted(outcome("merge-matmuls", siblings(nodes))) == ["MatMul", "Relu", "Split"]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("u = Gemm (x, a, p) v = Gemm <alpha = 2.0> (x, b, q) w = MatMul (x, c)", "no sibling product"),
        ("u = Gemm (x, a, p) v = Gemm (x, b) w = MatMul (x, c)", "no sibling product"),
        ("n = Neg (x) u = MatMul (n, a) m = Neg (b) v = MatMul (x, m) w = MatMul (x, c)", "not a constant matrix"),
    ],
)
def test_refusals(nodes: str, reason: str):
    assert reason in reasons("merge-matmuls", siblings(nodes, "N,3"))


def test_old_opsets_are_refused():
    assert "axes from the front" in reasons("merge-matmuls", siblings(PLAIN), opset=10)
