from __future__ import annotations

import math

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph import extents
from onnx_passes.graph.extents import Element, Extent, add, compare, divide, extent, greatest, least, multiply, negate

NAMES = ("N", "M", "K")
POSITIVE = st.fixed_dictionaries({name: st.integers(1, 9) for name in NAMES})
"""What SymPy takes dimensions for."""
SIZES = st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES})


def leaf(name: str) -> Element:
    return extent(ir.SymbolicDim(name))


def combine(parts: st.SearchStrategy[Element]) -> st.SearchStrategy[Element]:
    return st.one_of(
        st.builds(add, parts, parts),
        st.builds(multiply, parts, parts),
        st.builds(negate, parts),
    )


ELEMENTS = st.recursive(st.integers(-5, 5) | st.sampled_from(NAMES).map(leaf), combine, max_leaves=6)


def at(element: Element, sizes: dict[str, int]) -> int:
    assert element is not None
    if isinstance(element, int):
        return element
    return sum(factor * math.prod(sizes[name] for name in names) for names, factor in element.terms.items())


@given(ELEMENTS, ELEMENTS, SIZES)
def test_arithmetic_is_that_of_numbers(a: Element, b: Element, sizes: dict[str, int]):
    assert at(add(a, b), sizes) == at(a, sizes) + at(b, sizes)
    assert at(multiply(a, b), sizes) == at(a, sizes) * at(b, sizes)
    assert at(negate(a), sizes) == -at(a, sizes)


@given(ELEMENTS, ELEMENTS, SIZES)
def test_quotients_are_those_of_numbers(a: Element, b: Element, sizes: dict[str, int]):
    quotient, divisor = divide(a, b), at(b, sizes)
    if quotient is not None and divisor != 0:
        numerator = at(a, sizes)
        expected = abs(numerator) // abs(divisor)
        assert at(quotient, sizes) == (expected if (numerator < 0) == (divisor < 0) else -expected)


@given(ELEMENTS, ELEMENTS, SIZES)
def test_comparisons_hold_for_all_sizes(a: Element, b: Element, sizes: dict[str, int]):
    sign = compare(a, b)
    if sign is not None:
        difference = at(a, sizes) - at(b, sizes)
        assert sign == (difference > 0) - (difference < 0)


def test_arithmetic_in_names_is_understood():
    n, m = leaf("N"), leaf("M")
    assert leaf("2*N + M**2") == add(multiply(2, n), multiply(m, m))
    assert leaf("N*(M + 1)") == add(multiply(n, m), n)


def test_other_names_stand_for_themselves():
    for name in ("floor(N/2)", "batch size", "Quant/x.1"):
        assert leaf(name) == Extent({(name,): 1})
        assert compare(leaf(name), -1) == 1


def test_names_that_are_no_arithmetic_are_factors_all_the_same():
    n, odd = leaf("N"), leaf("floor(N/2 - 1/2) + 1")
    assert str(odd) == "floor(N/2 - 1/2) + 1"
    assert str(2 * n * odd) == "2*N*(floor(N/2 - 1/2) + 1)"
    assert meaning(2 * n * odd, {"N": 7}) == 2 * 7 * 4
    assert meaning(odd // 2, {"N": 7}) == 2


def test_dots_in_names_are_no_arithmetic():
    size = leaf("x.1_dim_0")
    assert str(2 * size + 1) == "2*x.1_dim_0 + 1"
    assert leaf("2*x.1_dim_0 + 1") == 2 * size + 1
    assert (size // 2 + 1).free_symbols() == {"x.1_dim_0"}


def test_unknown_dimensions_stay_unknown():
    assert extent(ir.SymbolicDim(None)) is None
    assert add(None, 1) is None
    assert multiply(None, 0) == 0
    assert compare(None, None) is None


def meaning(element: Element, sizes: dict[str, int]) -> int:
    """Read the text of an element as SymPy does."""
    found = element if isinstance(element, int) else ir.SymbolicDim(str(element)).evaluate(sizes)
    assert isinstance(found, int)
    return found


@given(ELEMENTS, st.integers(-6, 6).filter(bool), SIZES)
def test_quotients_by_numbers_are_rounded_down(a: Element, divisor: int, sizes: dict[str, int]):
    assert a is not None
    quotient = a // divisor
    assert isinstance(quotient, int | Extent)
    assert meaning(quotient, sizes) == at(a, sizes) // divisor
    assert meaning(a % divisor, sizes) == at(a, sizes) % divisor


@given(ELEMENTS, ELEMENTS, POSITIVE)
def test_quotients_by_dimensions_are_rounded_down(a: Element, b: Element, sizes: dict[str, int]):
    assert a is not None
    assert b is not None
    divisor = at(b, sizes)
    if divisor and not isinstance(a, int) and isinstance(quotient := a // b, int | Extent):
        assert meaning(quotient, sizes) == at(a, sizes) // divisor


@given(ELEMENTS, ELEMENTS, POSITIVE)
def test_the_greater_and_the_lesser(a: Element, b: Element, sizes: dict[str, int]):
    for choose, expected in ((greatest, max), (least, min)):
        chosen = choose(a, b)
        if chosen is not None:
            assert meaning(chosen, sizes) == expected(at(a, sizes), at(b, sizes))


@given(ELEMENTS, st.integers(1, 6), SIZES)
def test_what_is_never_negative_is_not(a: Element, divisor: int, sizes: dict[str, int]):
    assert a is not None
    quotient = a // divisor
    if isinstance(quotient, Extent) and quotient.is_never_negative:
        assert meaning(quotient, sizes) >= 0


@given(ELEMENTS, st.integers(2, 6))
def test_text_is_read_back(a: Element, divisor: int):
    assert a is not None
    quotient = a // divisor
    assert extents.parse(str(quotient)) == quotient


def test_equal_sizes_have_equal_texts():
    n, m = leaf("N"), leaf("M")
    assert (n - 1) // 2 + 1 == (n + 1) // 2
    assert (6 * n * m) // (4 * m) == n + n // 2
    assert (64 * n * (m + 1)) // (n * (m + 1)) == 64
    assert str((n + 3) // 4) == "floor((N + 3)/4)"
    assert hash(n + m) == hash(m + n)


def test_what_polynomials_cannot_do_is_left_to_sympy():
    n, m = leaf("N"), leaf("M")
    assert not isinstance((n - 5) // m, Extent)
    assert ((n - 5) // m).evaluate({"N": 9, "M": 3}) == 1
    assert (n / 2).evaluate({"N": 8}) == 4
    assert (ir.SymbolicDim("K") + n).evaluate({"K": 1, "N": 2}) == 3


def test_names_inside_of_what_is_no_polynomial_are_found():
    assert (leaf("N") * (leaf("M") // 2)).free_symbols() == {"N", "M"}


def test_products_of_too_many_terms_are_refused():
    many = sum((leaf(f"n{number}") for number in range(40)), 0)
    with pytest.raises(OverflowError):
        _ = many * many
    assert extents.parse("(" + "+".join(f"n{number}" for number in range(40)) + ")**8") is None
    for base in "9N":
        assert extents.parse("(" * 40 + base + "**8)" * 40) is None
    assert extents.parse("floor(N/2)**2 * 2**5") == 32 * (leaf("N") // 2) * (leaf("N") // 2)
