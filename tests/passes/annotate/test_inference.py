from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes.passes.annotate.shape_inference import ShapeInference
from tests.passes.tools import apply, value

TWINS = """
<ir_version: 10, opset_import: ["": 20]>
g (float[N, 3, H, 8] x, float[4, 3, 3, 3] w, int64[2] target) => (float[A, B] y)
<int64[2] flat = {0, -1}, int64[2] other = {-1, 4}, int64[1] one = {1}, int64[1] end = {-1}, int64[1] axis = {2}>
{
    a = Conv <strides = [2, 2]> (x, w)
    b = Conv <strides = [2, 2]> (x, w)
    c = Conv <strides = [1, 1]> (x, w)
    f = Reshape (a, flat)
    g = Reshape (b, flat)
    h = Reshape (b, other)
    s = Slice (x, one, end, axis)
    t = Slice (x, one, end, axis)
    u = Reshape (x, target)
    v = Reshape (x, target)
    y = Identity (f)
}
"""


@pytest.fixture
def inferred() -> ir.Model:
    model = ir.from_onnx_text(TWINS)
    apply(ShapeInference(), model)
    return model


@pytest.mark.parametrize("pair", ["ab", "fg", "st"])
def test_nodes_that_are_alike_have_equal_shapes_of_their_own(inferred: ir.Model, pair: str):
    first, second = (value(inferred, name) for name in pair)
    assert first.shape is not None
    assert any(isinstance(dim, ir.SymbolicDim) for dim in first.shape)
    assert first.shape == second.shape
    assert first.shape is not second.shape
    assert first.dtype == second.dtype == ir.DataType.FLOAT


@pytest.mark.parametrize("pair", ["bc", "gh", "cs"])
def test_other_attributes_and_other_integers_are_told_apart(inferred: ir.Model, pair: str):
    first, second = (value(inferred, name) for name in pair)
    assert first.shape != second.shape


def test_dimensions_that_nobody_knows_are_not_taken_for_equal(inferred: ir.Model):
    assert value(inferred, "u").shape != value(inferred, "v").shape
