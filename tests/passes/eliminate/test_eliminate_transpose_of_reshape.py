from __future__ import annotations

import itertools

import numpy as np
import pytest

from onnx_passes.passes.eliminate.transpose_laws import EliminateTransposeOfReshape
from tests.passes.eliminate.tools import body, refusals, rewritten

PASS = EliminateTransposeOfReshape()


@pytest.mark.parametrize(
    ("x", "shape", "perm", "target"),
    [
        ("2,4", "2, 1, 2, 2", (0, 2, 1, 3), "2,2,1,2"),
        ("N,4", "0, 1, 2, 2", (0, 2, 1, 3), "-1,2,1,2"),
        ("N,4", "-1, 1, 2, 2", (0, 2, 3, 1), "-1,2,2,1"),
    ],
)
def test_reshape_moves_axes_of_size_one(x: str, shape: str, perm: tuple[int, ...], target: str):
    text = f"""g (float[{x}] x) => (float[A,B,C,D] y) <int64[4] s = {{{shape}}}> {{
        r = Reshape (x, s) t = Transpose <perm = {list(perm)}> (r) y = Neg (t)
    }}"""
    model = rewritten(PASS, text)
    reshape = model.graph.node(0)
    assert [node.op_type for node in model.graph] == ["Reshape", "Neg"]
    assert reshape.inputs[1].const_value.numpy().tolist() == [int(size) for size in target.split(",")]


def test_all_permutations_that_keep_the_order_of_the_others():
    shape = np.array([2, 1, 3, 1])
    for perm in itertools.permutations(range(4)):
        made = ",".join(map(str, shape[list(perm)]))
        text = f"""g (float[6] x) => (float[{made}] y) <int64[4] s = {{2, 1, 3, 1}}> {{
            r = Reshape (x, s) t = Transpose <perm = {list(perm)}> (r) y = Neg (t)
        }}"""
        if perm.index(0) < perm.index(2):
            assert len(rewritten(PASS, text).graph) == 2
        else:
            assert "it moves axes of other sizes than one" in refusals(PASS, text)


def test_transposition_before_a_reshape():
    text = """g (float[2,1,3] x) => (float[3,2] y) <int64[2] s = {3, -1}> {
        t = Transpose <perm = [1, 0, 2]> (x) r = Reshape (t, s) y = Neg (r)
    }"""
    assert [node.op_type for node in rewritten(PASS, text).graph] == ["Reshape", "Neg"]


def test_reshape_that_others_use_stays():
    text = """g (float[4] x) => (float[2,1,2] r, float[1,2,2] y) <int64[3] s = {2, 1, 2}> {
        r = Reshape (x, s) t = Transpose <perm = [1, 0, 2]> (r) y = Neg (t)
    }"""
    assert [node.op_type for node in rewritten(PASS, text).graph] == ["Reshape", "Reshape", "Neg"]


@pytest.mark.parametrize(
    ("x", "shape", "reason"),
    [
        ("6", "2, 3, 1", "it moves axes of other sizes than one"),
        ("N,M,3", "0, 0, 3", "it moves axes of other sizes than one"),
        ("0,1,3", "0, 1, 3", "more than one size is unknown, or a size is zero"),
        ("1,N,M", "1, 0, 0", "more than one size is unknown, or a size is zero"),
    ],
)
def test_refuses(x: str, shape: str, reason: str):
    text = f"""g (float[{x}] x) => (float[A,B,C] y) <int64[3] s = {{{shape}}}> {{
        r = Reshape (x, s) t = Transpose <perm = [1, 0, 2]> (r) y = Neg (t)
    }}"""
    assert reason in refusals(PASS, text)


def test_refuses_unknown_shapes():
    text = """g (float[6] x, int64[3] s) => (float[A,B,C] y) { r = Reshape (x, s) t = Transpose (r) y = Neg (t) }"""
    assert "the shape is not known" in refusals(PASS, text, infer=False)


def test_body_in_text():
    text = """g (float[1,4] x) => (float[4,1] y) <int64[2] s = {1, 4}> { r = Reshape (x, s) y = Transpose (r) }"""
    assert body(rewritten(PASS, text)).startswith("y = Reshape(x, ")
