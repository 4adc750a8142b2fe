from __future__ import annotations

import pytest

from onnx_passes.verify.proving.labelled import METHOD as LABELLED
from onnx_passes.verify.proving.reshaped import METHOD as RESHAPED
from onnx_passes.verify.proving.shapes import METHOD as SHAPES
from tests.verify.proving.windows import is_exact, prove

TWICE = "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = {perm}> (a)"


@pytest.mark.parametrize(("perm", "right"), [("[2, 0, 1]", True), ("[1, 0, 2]", False)])
@pytest.mark.parametrize("sizes", ["2,2,2", "N,M,K"])
def test_permutations_are_followed_for_any_size(perm: str, right: bool, sizes: str):
    found = prove(f"float[{sizes}] x", TWICE.format(perm=perm), "y = Identity(x)")
    assert is_exact(found) == right
    assert found.refuted if not right else found.method == LABELLED


@pytest.mark.parametrize(("end", "right"), [(4, True), (3, False)])
def test_a_slice_that_takes_all_needs_the_size(end: int, right: bool):
    constants = f"int64[1] start = {{0}}, int64[1] end = {{{end}}}, int64[1] axis = {{1}}"
    slices = "y = Slice(x, start, end, axis)"
    assert is_exact(prove("float[2,4] x", slices, "y = Identity(x)", constants=constants)) == right
    found = prove("float[2,N] x", slices, "y = Identity(x)", constants=constants)
    assert not is_exact(found)
    assert "not known" in found.reason


@pytest.mark.parametrize(("sizes", "right"), [("0, 6", True), ("2, 6", False)])
def test_a_reshape_keeps_the_order_of_elements(sizes: str, right: bool):
    constants = f"int64[3] first = {{0, 3, 2}}, int64[2] second = {{0, 6}}, int64[2] other = {{{sizes}}}"
    found = prove(
        "float[N,2,3] x", "a = Reshape(x, first) y = Reshape(a, second)", "y = Reshape(x, other)", constants=constants
    )
    assert is_exact(found) == right
    assert not right or found.method == RESHAPED


def test_a_reshape_is_no_transposition():
    constants = "int64[2] shape = {3, 2}"
    assert not is_exact(prove("float[2,3] x", "y = Reshape(x, shape)", "y = Transpose(x)", constants=constants))


COMPUTED = "s = Shape(x) g = Gather(s, one) y = Unsqueeze(g, zeros)"


@pytest.mark.parametrize(("held", "right"), [(5, True), (4, False)])
def test_known_sizes_are_constants(held: int, right: bool):
    constants = f"int64 one = {{1}}, int64[1] zeros = {{0}}, int64[1] held = {{{held}}}"
    found = prove("float[N,5,K] x", COMPUTED, "y = Identity(held)", constants=constants)
    assert is_exact(found) == right
    assert not right or found.method == SHAPES


def test_sizes_that_are_not_known_are_no_constants():
    constants = "int64 one = {0}, int64[1] zeros = {0}, int64[1] held = {5}"
    assert not is_exact(prove("float[N,5,K] x", COMPUTED, "y = Identity(held)", constants=constants))
    added = COMPUTED.replace("y = Unsqueeze(g, zeros)", "u = Unsqueeze(g, zeros) y = Add(u, held)")
    assert "not known" in prove("float[N,5] x", added, "y = Identity(held)", constants=constants).reason


def test_sizes_of_one_name_are_equal():
    constants = "int64 one = {0}, int64[1] zeros = {0}"
    other = COMPUTED.replace("Shape(x)", "Shape(z)")
    assert is_exact(prove("float[N,5] x, float[N] z", COMPUTED, other, constants=constants))
    assert not is_exact(prove("float[N,5] x, float[M] z", COMPUTED, other, constants=constants))
