from __future__ import annotations

from onnx_passes.passes.eliminate.piece_laws import EliminateConcat
from tests.passes.eliminate.tools import body, refusals, rewritten

NOT_NESTED = "no input is a Concat read only by Concat nodes of the same axis"


def test_makes_one_of_nested_concatenations():
    text = """g (float[2,N] a, float[2,1] b) => (float[2,M] y) {
        c = Concat <axis = 1> (a, b) d = Concat <axis = -1> (b, c, a) y = Concat <axis = 1> (d, b)
    }"""
    assert body(rewritten(EliminateConcat(), text)) == "y = Concat<axis=1>(b, a, b, a, b)"


def test_same_inner_concatenation_twice():
    text = "g (float[2] a) => (float[8] y) {c = Concat <axis = 0> (a, a) y = Concat <axis = 0> (c, c)}"
    assert body(rewritten(EliminateConcat(), text)) == "y = Concat<axis=0>(a, a, a, a)"


def test_keeps_concatenation_along_another_axis():
    text = "g (float[1,2] a) => (float[2,4] y) {c = Concat <axis = 1> (a, a) y = Concat <axis = 0> (c, c)}"
    assert NOT_NESTED in refusals(EliminateConcat(), text)


def test_keeps_axis_counted_from_an_unknown_end():
    text = "g (float[2,1] a) => (float[A,B] y) {n = Neg (a) c = Concat <axis = -1> (n, n) y = Concat <axis = 1> (c, n)}"
    model = rewritten(EliminateConcat(), text)
    assert body(model) == "n = Neg(a); y = Concat<axis=1>(n, n, n)"
    text = text.replace("y = Concat", "d = Concat").replace("(c, n)}", "(c, n) y = Neg (d)}")
    assert NOT_NESTED in refusals(EliminateConcat(), text, infer=False)


def test_an_inner_concatenation_of_several_outer_ones_goes():
    text = """g (float[2] a, float[1] b) => (float[5] y, float[6] z) {
        c = Concat <axis = 0> (a, b) y = Concat <axis = 0> (c, a) z = Concat <axis = -1> (b, c, a)
    }"""
    assert body(rewritten(EliminateConcat(), text)) == "y = Concat<axis=0>(a, b, a); z = Concat<axis=-1>(b, a, b, a)"


def test_keeps_inner_concatenation_of_which_one_outer_has_another_axis():
    text = """g (float[2,2] a, float[2,1] b) => (float[2,4] y, float[4,3] z) {
        c = Concat <axis = 1> (a, b) y = Concat <axis = 1> (c, b) z = Concat <axis = 0> (c, c)
    }"""
    assert NOT_NESTED in refusals(EliminateConcat(), text)


def test_keeps_inner_concatenation_that_others_use():
    text = "g (float[2] a) => (float[4] c, float[6] y) {c = Concat <axis = 0> (a, a) y = Concat <axis = 0> (c, a)}"
    assert NOT_NESTED in refusals(EliminateConcat(), text)
