from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.no_op_laws import EliminateNoOp
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        ("float[2,N]", "Tile (x, ones)"),
        ("float[N,2]", "Split <axis = 1> (x, two)"),
        ("float[N,2]", "Split <num_outputs = 1> (x)"),
        ("float[1,2,3,4]", "DepthToSpace <blocksize = 1> (x)"),
        ("float[1,2,3,4]", "SpaceToDepth <blocksize = 1> (x)"),
        ("int8[1,2,3,4]", "MaxPool <kernel_shape = [1, 1]> (x)"),
        ("float[2,N]", "Gather (x, order)"),
        ("float[N,2]", "Gather <axis = -1> (x, order)"),
        ("float[N,2]", "Concat <axis = 1> (x)"),
        ("float[12]", "Sum (x)"),
        ("float[12]", "Mean (x)"),
        ("float[12]", "Max (x)"),
        ("int32", "Min (x)"),
    ],
)
def test_removes_what_does_nothing(kind: str, node: str):
    text = f"""g ({kind} x) => ({kind} y)
        <int64[2] ones = {{1, 1}}, int64[1] two = {{2}}, int64[2] order = {{0, -1}}> {{
        a = {node} y = Identity (a)
    }}"""
    assert body(rewritten(EliminateNoOp(), text)) == "y = Identity(x)"


def test_nested_minima_of_one_input():
    text = "g (float[12] x) => (float[12] y) {a = Min (x) b = Min (a) y = Neg (b)}"
    assert body(rewritten(EliminateNoOp(), text)) == "y = Neg(x)"


@pytest.mark.parametrize(
    ("kind", "node", "reason"),
    [
        ("float[2]", "Tile (x, two)", "it repeats, or may do so"),
        ("float[2]", "Max (x, x)", "it has several inputs"),
        ("float[1,4,2,2]", "DepthToSpace <blocksize = 2> (x)", "its blocks are larger"),
        ("float[1,2,3,4]", "MaxPool <kernel_shape = [1, 1]> (x)", "NaN and infinities may become finite"),
        ("int8[1,2,3,4]", "MaxPool <kernel_shape = [1, 1], strides = [1, 2]> (x)", None),
        ("int8[1,2,3,4]", "MaxPool <kernel_shape = [2, 1]> (x)", None),
        ("float[2]", "Gather (x, reverse)", "the indices are not known to be in order"),
        ("float[3]", "Gather (x, reverse)", "the number of indices is not the size of the axis"),
        ("float[N]", "Gather (x, reverse)", "the number of indices is not the size of the axis"),
    ],
)
def test_keeps_what_does_something(kind: str, node: str, reason: str | None):
    rank = kind.count(",") + 1
    text = f"""g ({kind} x) => ({kind.split("[")[0]}[{",".join("ABCD"[:rank])}] y)
        <int64[1] two = {{2}}, int64[2] reverse = {{1, 0}}> {{y = {node}}}"""
    reasons = refusals(EliminateNoOp(), text, infer=False)
    assert (reason or "its windows are larger, wider apart or padded") in reasons


def test_keeps_average_pooling_which_changes_zeros():
    text = "g (float[1,2,3,4] x) => (float[1,2,3,4] y) {y = AveragePool <kernel_shape = [1, 1]> (x)}"
    assert not refusals(EliminateNoOp(), text)


def test_keeps_indices_of_a_scalar_which_remove_an_axis():
    text = "g (float[1,3] x) => (float[3] y) <int64 i = {0}> {y = Gather (x, i)}"
    assert refusals(EliminateNoOp(), text)
