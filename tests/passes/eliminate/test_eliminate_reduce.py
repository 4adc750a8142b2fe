from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.reduce_laws import EliminateReduce, EliminateReduceOfFloats
from tests.passes.eliminate.tools import body, refusals, rewritten

EXACT = ["ReduceMax", "ReduceMin", "ReduceProd"]
NOT_ONE = "an axis is not known to have one element"


@pytest.mark.parametrize(("op_type", "kind"), [*((name, "float") for name in EXACT), ("ReduceSum", "int32")])
@pytest.mark.parametrize("axis", [-2, 1])
def test_axes_of_one_element_are_kept_or_squeezed(op_type: str, kind: str, axis: int):
    for keep, shape, nodes in ((1, "N,1,3", "y = Neg(x)"), (0, "N,3", "b = Squeeze(x, constant); y = Neg(b)")):
        text = f"""g ({kind}[N,1,3] x) => ({kind}[{shape}] y) <int64[1] a = {{{axis}}}> {{
            b = {op_type} <keepdims = {keep}> (x, a) y = Neg (b)
        }}"""
        assert body(rewritten(EliminateReduce(), text)) == nodes


def test_all_axes_of_a_single_element():
    text = "g (float[1,1] x) => (float y) {b = ReduceMax <keepdims = 0> (x) y = Neg (b)}"
    assert [node.op_type for node in rewritten(EliminateReduce(), text).graph] == ["Squeeze", "Neg"]


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean"])
def test_leaves_sums_that_change_zeros_to_fast_math(op_type: str):
    text = f"g (float[2,1,3] x) => (float[2,1,3] y) <int64[1] a = {{1}}> {{b = {op_type} (x, a) y = Neg (b)}}"
    assert "the sign of a zero may change" in refusals(EliminateReduce(), text)
    feeds = {"x": np.arange(1, 7, dtype=np.float32).reshape(2, 1, 3)}
    assert body(rewritten(EliminateReduceOfFloats(), text, feeds=feeds)) == "y = Neg(x)"


@pytest.mark.parametrize("axes", ["(x)", "(x, none)"])
def test_no_axes_may_mean_none(axes: str):
    text = f"""g (float[N,3] x) => (float[N,3] y) <int64[0] none = {{}}> {{
        b = ReduceSum <noop_with_empty_axes = 1> {axes} y = Neg (b)
    }}"""
    assert body(rewritten(EliminateReduce(), text)) == "y = Neg(x)"


def test_no_axes_mean_all_otherwise():
    text = "g (float[2,3] x) => (float[1,1] y) <int64[0] none = {}> {b = ReduceSum (x, none) y = Neg (b)}"
    assert NOT_ONE in refusals(EliminateReduce(), text)


@pytest.mark.parametrize(("opset", "op_type", "squeeze"), [(11, "ReduceMin", 1), (13, "ReduceMax", 2)])
def test_axes_as_attribute(opset: int, op_type: str, squeeze: int):
    text = f"g (float[2,1] x) => (float[2] y) {{b = {op_type} <axes = [1], keepdims = 0> (x) y = Neg (b)}}"
    model = rewritten(EliminateReduce(), text, opset=opset)
    assert [(node.op_type, len(node.inputs)) for node in model.graph] == [("Squeeze", squeeze), ("Neg", 1)]


@pytest.mark.parametrize("op_type", ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"])
def test_keeps_what_changes_a_single_element(op_type: str):
    text = f"g (float[1,1] x) => (float[1] y) <int64[1] a = {{0}}> {{y = {op_type} <keepdims = 0> (x, a)}}"
    assert not refusals(EliminateReduce(), text)


def test_keeps_axes_of_unknown_size():
    text = "g (float[N] x) => (float[1] y) <int64[1] a = {0}> {y = ReduceMax (x, a)}"
    assert NOT_ONE in refusals(EliminateReduce(), text)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceProd", "ReduceMean"])
def test_keeps_large_integers_that_the_runtime_rounds(op_type: str):
    text = f"g (int64[1] x) => (int64[1] y) {{y = {op_type} (x)}}"
    assert "ONNX Runtime computes it in doubles" in refusals(EliminateReduce(), text)


def test_keeps_axes_that_may_be_overridden():
    text = "g (float[1,2] x, int64[1] a = {0}) => (float[A,B] y) {y = ReduceMax (x, a)}"
    assert "the axes are not known" in refusals(EliminateReduce(), text)
