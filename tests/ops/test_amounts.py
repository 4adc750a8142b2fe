from __future__ import annotations

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph.extents import Extent, product
from onnx_passes.ops.facts.work import UnknownSizeError, dims, nbytes, nominal, size, total


def value(shape: list[object] | None, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
    return ir.Value(name="v", shape=None if shape is None else ir.Shape(shape), type=ir.TensorType(dtype))


def evaluate(amount: int | Extent, **sizes: int) -> int:
    if isinstance(amount, int):
        return amount
    return sum(factor * product(sizes[name] for name in names) for names, factor in amount.terms.items())


polynomials = st.dictionaries(
    st.lists(st.sampled_from("NSB"), max_size=3).map(lambda names: tuple(sorted(names))), st.integers(-9, 9), max_size=4
).map(Extent)
amounts = polynomials | st.integers(-9, 9)


@given(amounts, amounts, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_arithmetic_agrees_with_that_of_numbers(a, b, n, s, batch):
    sizes = {"N": n, "S": s, "B": batch}
    assert evaluate(a + b, **sizes) == evaluate(a, **sizes) + evaluate(b, **sizes)
    assert evaluate(a * b, **sizes) == evaluate(a, **sizes) * evaluate(b, **sizes)
    assert evaluate(total([a, b, a]), **sizes) == 2 * evaluate(a, **sizes) + evaluate(b, **sizes)


@given(polynomials, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_text_is_a_formula(amount, n, s, batch):
    sizes = {"N": n, "S": s, "B": batch}
    assert ir.SymbolicDim(str(amount)).evaluate(sizes) == evaluate(amount, **sizes)


@pytest.mark.parametrize(
    ("dim", "text"),
    [("N", "N"), ("2*N + 1", "2*N + 1"), ("N*M - 3", "M*N - 3"), ("floor(N/2)", "floor(N/2)"), ("a b", "a b")],
)
def test_dimensions_become_formulas(dim, text):
    assert str(size(value([dim]))) == text


def test_expressions_are_multiplied_out():
    assert str(size(value(["N + 1", "N - 1"]))) == "N**2 - 1"


def test_a_known_shape_gives_a_plain_number():
    assert size(value([2, 3])) == 6
    assert size(value([])) == 1
    assert size(value([4, 0])) == 0


def test_bytes_of_types_below_a_byte_are_rounded_up():
    assert nbytes(value([5], ir.DataType.INT4)) == 3
    assert nbytes(value([5], ir.DataType.FLOAT16)) == 10
    assert str(nbytes(value(["N", 4], ir.DataType.INT4))) == "2*N"


@pytest.mark.parametrize(
    ("unknown", "reason"),
    [(value(None), "the shape of 'v'"), (value([None, 2]), "neither number nor name"), (None, "missing")],
)
def test_says_what_is_unknown(unknown, reason):
    with pytest.raises(UnknownSizeError, match=reason):
        dims(unknown)


def test_strings_have_no_size():
    with pytest.raises(UnknownSizeError, match="elements of 'v'"):
        nbytes(value([2], ir.DataType.STRING))


def test_amounts_are_compared_with_every_dimension_at_the_same_size():
    assert nominal(Extent({("N",): 3, (): 1})) == 3 * 64 + 1
