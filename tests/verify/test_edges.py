"""A value on the edge of two levels may be rounded otherwise by a model that is right; nothing else is excused."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.verify.edges import only_rounds_otherwise
from onnx_passes.verify.failure import PostconditionError

EDGE = """
<ir_version: 10, opset_import: ["": 20]>
edge (float[4] x) => (float[4] y)
<float third = {0.333333333333}, float nine = {9.0}, float step = {0.01}>
{
    a = Mul (x, third)
    b = Mul (a, nine)
    r = Round (b)
    y = Mul (r, step)
}
"""


@passes.verify.tolerance
class MultiplyAtOnce(Transformation, RewriteRulePass):
    """Multiply once: right, but for rounding."""

    def pattern(self, op, x, a, b):
        return op.Mul(op.Mul(x, a), b)

    def rewrite(self, op, x, a, b):
        return op.Mul(x, np.float32(3))


@passes.verify.tolerance
class MultiplyTooMuch(MultiplyAtOnce):
    """Multiply by too much: wrong where it stands."""

    def rewrite(self, op, x, a, b):
        return op.Mul(x, np.float32(3.5))


def x() -> list[np.ndarray]:
    # The last times 3 is 6.5; by way of the third and nine it is a little more.
    return [np.array([-40, 20, 30, 13 / 6], np.float32)]


def test_a_right_rewrite_before_an_edge_is_accepted_with_a_note():
    result = apply(ir.from_onnx_text(EDGE), MultiplyAtOnce(), inputs=x())
    notes = [note for step in result.record.steps for note in step.notes]
    before, after = (run(ir.from_onnx_text(EDGE)), run(result.model))
    assert not np.array_equal(before, after), "the example is meant to lie on an edge"
    assert any("edge of two levels" in note for note in notes)


def test_a_wrong_rewrite_before_an_edge_is_not():
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(EDGE), MultiplyTooMuch(), inputs=x())


@passes.verify.equality
class MultiplyAtOnceExactly(MultiplyAtOnce):
    """Promise too much."""


def test_equality_is_not_excused():
    with pytest.raises(PostconditionError):
        apply(ir.from_onnx_text(EDGE), MultiplyAtOnceExactly(), inputs=x())


def run(model: ir.Model) -> np.ndarray:
    from onnx_passes.verify.execute import Executor

    return Executor().prepare(model).run({"x": x()[0]})["y"]


@pytest.mark.parametrize(
    ("operator", "found", "excused"),
    [
        ("Round", [0.0, 0.95, 2.0], True),
        ("Round", [0.0, 0.5, 2.0], False),
        ("Round", [0.0, np.nan, 2.0], False),
        ("Relu", [0.0, 0.95, 2.0], False),
    ],
)
def test_differences_have_to_be_small_and_edges_there(operator: str, found: list[float], excused: bool):
    text = f'<ir_version: 10, opset_import: ["": 20]> g (float[3] x) => (float[3] y) {{ y = {operator} (x) }}'
    expected, other = ({"y": np.array(values, np.float32)} for values in ([0.0, 1.0, 2.0], found))
    assert only_rounds_otherwise(ir.from_onnx_text(text).graph, [expected], [other]) == excused
