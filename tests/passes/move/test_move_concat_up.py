"""Parts that are computed alike are joined first."""

from __future__ import annotations

import pytest

from onnx_passes.passes.move.move_concat_up import MoveConcatUp, MoveConcatUpRounding
from tests.passes.move.tools import order, refusals, rewritten, rounded


def test_joins_first():
    text = """g (float[2,3] a, float[1,3] b, float[4,3] c) => (float[7,3] y) {
        p = Relu (a) q = Relu (b) r = Relu (c) n = Neg (p) m = Neg (q) o = Neg (r) y = Concat <axis = 0> (n, m, o)
    }"""
    assert order(MoveConcatUp(), text) == ["Concat", "Relu", "Neg"]


def test_bounds_must_be_the_same():
    text = """g (float[2] a, float[2] b) => (float[4] y) <float lo = {0}, float hi = {1}> {
        p = Clip (a, lo, hi) q = Clip (b, lo, OTHER) y = Concat <axis = 0> (p, q)
    }"""
    model = rewritten(MoveConcatUp(), text.replace("OTHER", "hi"))
    assert [v.name for v in model.graph.node(1).inputs][1:] == ["lo", "hi"]
    assert "a part is computed differently" in refusals(MoveConcatUp(), text.replace("OTHER", "lo"))


@pytest.mark.parametrize(
    "parts",
    [
        "p = LeakyRelu <alpha = 0.5> (a) q = LeakyRelu (b)",
        "d = Cast <to = 11> (b) p = Cast <to = 1> (a) q = Cast <to = 1> (d)",
        "p = Neg (a) q = Abs (b)",
    ],
)
def test_attributes_types_and_operators_must_be_the_same(parts: str):
    text = f"g (float[2] a, float[2] b) => (float[4] y) {{{parts} y = Concat <axis = 0> (p, q)}}"
    assert set(refusals(MoveConcatUp(), text)) <= {"a part is computed differently"}


def test_part_that_is_used_elsewhere_stays():
    text = """g (float[2] a, float[2] b, float[2] c) => (float[6] y, float[2] r) {
        p = Neg (a) q = Neg (b) r = Neg (c) y = Concat <axis = 0> (p, q, r)
    }"""
    assert "a part is used elsewhere" in refusals(MoveConcatUp(), text)


def test_functions_may_round_differently():
    text = "g (float[5] a, float[6] b) => (float[11] y) {p = Sin (a) q = Sin (b) y = Concat <axis = 0> (p, q)}"
    assert rounded(MoveConcatUpRounding(), text) == ["Concat", "Sin"]
