from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.passes.eliminate.reshape_laws import EliminateSqueeze
from tests.passes.eliminate.tools import body, refusals, rewritten
from tests.passes.tools import assert_equal_results, check, model_of, run


def _two(outer: str, inner: str, shape: Sequence[int], after: Sequence[int], b: list[int], a: list[int]) -> str:
    return f"""g (float[{",".join(map(str, shape))}] x) => (float[{",".join(map(str, after))}] z)
        <int64[{len(a)}] a = {{{", ".join(map(str, a))}}}, int64[{len(b)}] b = {{{", ".join(map(str, b))}}}> {{
        u = {inner} (x, a) y = {outer} (u, b) z = Neg (y)
    }}"""


@pytest.mark.parametrize("infer", [True, False])
@pytest.mark.parametrize("outer", ["Squeeze", "Unsqueeze"])
@pytest.mark.parametrize("inner", ["Squeeze", "Unsqueeze"])
def test_pairs_with_all_axes_give_the_same(outer: str, inner: str, infer: bool):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 1, 3, 1)
    choices = [[0], [-1], [2], [4], [0, 2], [-1, 0], [2, 4], [-3, -1], [3]]
    seen = merged = 0
    for a, b in itertools.product(choices, repeat=2):
        shape = _shape_after(outer, _shape_after(inner, x.shape, a), b)
        if shape is None:
            continue
        model = model_of(_two(outer, inner, x.shape, shape, b, a))
        expected = run(model, {"x": x})
        if infer:
            ShapeInference().run(model, Context())
        seen += 1
        merged += EliminateSqueeze().run(model, Context()).modified
        assert_equal_results(model, expected, {"x": x})
    assert merged > 0.9 * seen if infer and outer == inner else merged > 0


def _shape_after(op_type: str, shape: Sequence[int] | None, axes: list[int]) -> tuple[int, ...] | None:
    try:
        return None if shape is None else getattr(np, _NUMPY[op_type])(np.zeros(shape), tuple(axes)).shape
    except (ValueError, np.exceptions.AxisError):
        return None


_NUMPY = {"Squeeze": "squeeze", "Unsqueeze": "expand_dims"}


def test_removes_squeeze_without_anything_to_squeeze():
    text = "g (float[2,3] x) => (float[2,3] y) {a = Squeeze (x) y = Neg (a)}"
    assert body(rewritten(EliminateSqueeze(), text)) == "y = Neg(x)"


def test_keeps_squeeze_of_sizes_that_are_not_known():
    assert "the rank changes" in refusals(
        EliminateSqueeze(), "g (float[2,N] x) => (float[2,N] y) {a = Squeeze (x) y = Neg (a)}", infer=False
    )


def test_undoes_without_a_known_rank():
    text = """g (float[2,3] x) => (float[2,3] y) <int64[1] a = {-1}> {
        n = Neg (x) b = Unsqueeze (n, a) c = Squeeze (b, a) y = Abs (c)
    }"""
    assert body(rewritten(EliminateSqueeze(), text, infer=False)) == "n = Neg(x); y = Abs(n)"


def test_merges_consecutive_squeezes_by_the_axes_of_the_first():
    # The second axis counts what is left after the first: 0, then 1 of the rest, are 0 and 2 of the input.
    text = """g (float[1,2,1,3] x) => (float[2,3] y) <int64[1] a = {0}, int64[1] b = {1}> {
        c = Squeeze (x, a) y = Squeeze (c, b)
    }"""
    model = rewritten(EliminateSqueeze(), text)
    axes = model.graph.node(0).inputs[1]
    assert axes is not None
    assert axes.const_value is not None
    assert axes.const_value.numpy().tolist() == [0, 2]


def test_merges_attributes_of_old_opsets():
    text = "g (float[2] x) => (float[1,2,1] y) {a = Unsqueeze <axes = [0]> (x) y = Unsqueeze <axes = [2]> (a)}"
    assert body(rewritten(EliminateSqueeze(), text, opset=11)) == "y = Unsqueeze<axes=[0,2]>(x)"


def test_keeps_pairs_that_remove_and_add():
    text = """g (float[1,2] x) => (float[2,1] y) <int64[1] a = {0}, int64[1] b = {1}> {
        c = Squeeze (x, a) y = Unsqueeze (c, b)
    }"""
    assert "axes are both removed and added" in refusals(EliminateSqueeze(), text)
    check(model_of(text))


def test_keeps_axes_that_may_be_overridden():
    text = """g (float[2] x, int64[1] a = {0}) => (float[2] y) {c = Unsqueeze (x, a) d = Squeeze (c, a) y = Neg (d)}"""
    assert refusals(EliminateSqueeze(), text)


def test_removes_unsqueeze_of_no_axes():
    text = "g (float[2] x) => (float[2] y) <int64[0] none = {}> {a = Unsqueeze (x, none) y = Neg (a)}"
    assert body(rewritten(EliminateSqueeze(), text)) == "y = Neg(x)"
