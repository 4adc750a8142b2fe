from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.passes.eliminate.transpose_pair_laws import EliminateTransposePair
from tests.helpers.thorough import some
from tests.passes.eliminate.tools import operators, refusals, rewritten
from tests.passes.tools import apply, model_of, run

PASS = EliminateTransposePair()


def chain(x: str, first: list[int], shape: list[int], second: list[int], others: str = "") -> str:
    size = ",".join("?" * len(second))
    target = ", ".join(map(str, shape))
    return f"""g (float[{x}] x) => (float[{size}] y{others}) <int64[{len(shape)}] s = {{{target}}}> {{
        t = Transpose <perm = {first}> (x) r = Reshape (t, s) u = Transpose <perm = {second}> (r) y = Neg (u)
    }}"""


@pytest.mark.parametrize(
    ("x", "first", "shape", "second", "left"),
    [
        ("1,12,4", [0, 2, 1], [1, 4, 3, 4], [0, 2, 3, 1], ["Reshape"]),
        ("1,4,32,16", [0, 3, 1, 2], [1, 4, 4, 128], [0, 3, 1, 2], ["Reshape"]),
        ("N,3,4", [0, 2, 1], [-1, 2, 2, 3], [0, 3, 1, 2], ["Reshape"]),
        ("4,2,3,8", [0, 3, 1, 2], [1, 8, 4, 6], [0, 3, 1, 2], ["Transpose", "Reshape"]),
        ("2,6", [1, 0], [2, 3, 2], [1, 2, 0], ["Reshape", "Transpose"]),
        ("N,3,4", [0, 2, 1], [-1, 2, 2, 3], [0, 3, 2, 1], ["Reshape", "Transpose"]),
    ],
)
def test_two_transposes_around_a_reshape_become_one_or_none(x, first, shape, second, left):
    model = rewritten(PASS, chain(x, first, shape, second))
    assert operators(model.graph) == [*left, "Neg"]


@pytest.mark.parametrize("middle", ["r = Squeeze (t, a)", "r = Flatten <axis = 1> (t)"])
def test_other_operators_that_keep_the_order_stand_between(middle):
    model = rewritten(
        PASS,
        f"""g (float[2,1,3] x) => (float[2,3] y) <int64[1] a = {{1}}> {{
            t = Transpose <perm = [2, 1, 0]> (x) {middle} u = Transpose (r) y = Neg (u)
        }}""",
    )
    assert operators(model.graph) == ["Reshape", "Neg"]


SHAPES = [(2, 3, 4), (4, 1, 6), (6, 2, 2), (2, 2, 6)]
TARGETS = [(6, 4), (4, 6), (2, 12), (2, 2, 6), (3, 2, 4), (12, 2), (2, 2, 2, 3), (1, 4, 6), (24,)]


def test_results_are_the_same_for_all_orders_of_axes():
    cases = [
        (shape, first, target, second)
        for shape, target in itertools.product(SHAPES, TARGETS)
        for first in itertools.permutations(range(len(shape)))
        for second in itertools.permutations(range(len(target)))
    ]
    found = 0
    for shape, first, target, second in some(cases, every=29):
        model = model_of(chain(",".join(map(str, shape)), list(first), list(target), list(second)))
        transpose, reshape = (model.graph.node(place).outputs[0] for place in range(2))
        transpose.shape, reshape.shape = ir.Shape([shape[axis] for axis in first]), ir.Shape(target)
        x = np.arange(24, dtype=np.float32).reshape(shape)
        if apply(PASS, model):
            found += 1
            assert len(model.graph) < 4
            (result,) = run(model, {"x": x})
            assert np.array_equal(result, -x.transpose(first).reshape(target).transpose(second))
    assert found > 20


def test_what_others_read_stays_unless_the_transposes_cancel():
    cancels = chain("1,12,4", [0, 2, 1], [1, 4, 3, 4], [0, 2, 3, 1], ", float[1,4,3,4] r")
    assert operators(rewritten(PASS, cancels).graph) == ["Transpose", "Reshape", "Reshape", "Neg"]
    moves = chain("2,6", [1, 0], [2, 3, 2], [1, 2, 0], ", float[2,3,2] r")
    assert "an intermediate value has other consumers, and no node would be saved" in refusals(PASS, moves)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            chain("4,6", [1, 0], [4, 6], [1, 0]),
            "both transposes separate axes that the Reshape joins and splits",
        ),
        (chain("0,2,3", [0, 2, 1], [0, 3, 2], [0, 2, 1]), "it is not known which axes are joined or split"),
        (chain("N,M,4", [0, 2, 1], [0, 4, -1], [0, 2, 1]), "more than one size is unknown, or a size is zero"),
        (chain("N,M,4", [2, 1, 0], [2, 2, -1], [1, 2, 0]), "it is not known which axes are joined or split"),
    ],
)
def test_refusals(text: str, reason: str):
    assert any(given.startswith(reason) for given in refusals(PASS, text))


def test_before_opset_5_reshape_has_no_input():
    model = model_of(
        """g (float[2,3] x) => (float[2,3] y) {
            t = Transpose (x) r = Reshape <shape = [3, 2]> (t) y = Transpose (r)
        }""",
        opset=4,
    )
    assert not apply(PASS, model)
