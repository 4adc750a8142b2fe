from __future__ import annotations

import math

import onnx_ir as ir
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.graph.extents import Element, Extent, add, compare, divide, extent, multiply, negate

NAMES = ("N", "M", "K")
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


def test_unknown_dimensions_stay_unknown():
    assert extent(ir.SymbolicDim(None)) is None
    assert add(None, 1) is None
    assert multiply(None, 0) == 0
    assert compare(None, None) is None
