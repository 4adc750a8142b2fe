"""Questions about shapes and types."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.graph.shapes import dimension, rank, same_dtype, same_shape, static_shape


def value(shape, dtype=ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(
        name="v",
        shape=None if shape is None else ir.Shape(shape),
        type=None if dtype is None else ir.TensorType(dtype),
    )


@pytest.mark.parametrize(
    ("shape", "length", "static"),
    [
        ([2, 3], 2, (2, 3)),
        ([], 0, ()),
        ([0], 1, (0,)),
        ([np.int64(4)], 1, (4,)),
        (["N", 3], 2, None),
        ([None], 1, None),
        (None, None, None),
    ],
)
def test_rank_and_static_shape(shape, length, static):
    assert rank(value(shape)) == length
    assert static_shape(value(shape)) == static


def test_a_missing_value_has_no_shape():
    assert (rank(None), static_shape(None), dimension(None, 0)) == (None, None, None)
    assert not same_shape(None, value([1]))
    assert not same_shape(value([1]), None)
    assert not same_dtype(None, value([1]))
    assert not same_dtype(value([1]), None)


@pytest.mark.parametrize(
    ("axis", "size"), [(0, 2), (1, None), (2, 4), (3, None), (-1, 4), (-2, None), (-3, 2), (-4, None), (9, None)]
)
def test_a_dimension_is_known_or_nothing(axis, size):
    assert dimension(value([2, "N", 4]), axis) == size


def test_no_dimension_without_a_shape():
    assert dimension(value(None), 0) is None
    assert dimension(value([]), 0) is None
    assert dimension(value([]), -1) is None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ([2, 3], [2, 3], True),
        ([], [], True),
        ([2, 3], [3, 2], False),
        ([2], [2, 1], False),
        (["N", 3], ["N", 3], True),
        (["N"], ["M"], False),
        (["N"], [3], False),
        ([3], ["N"], False),
        ([None], [None], False),
        ([2, None], [2, None], False),
        (None, None, False),
        (None, [1], False),
    ],
)
def test_shapes_are_the_same_only_if_known(a, b, same):
    assert same_shape(value(a), value(b)) is same


def test_an_unknown_shape_is_not_even_the_same_as_itself():
    unknown = value([None])
    assert not same_shape(unknown, unknown)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (ir.DataType.FLOAT, ir.DataType.FLOAT, True),
        (ir.DataType.FLOAT, ir.DataType.DOUBLE, False),
        (None, None, False),
        (None, ir.DataType.FLOAT, False),
        (ir.DataType.FLOAT, None, False),
    ],
)
def test_types_are_the_same_only_if_known(a, b, same):
    assert same_dtype(value([1], a), value([1], b)) is same
