"""Integers in finite fields, beside ONNX Runtime: what real numbers say of casts and of sums that overflow."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops.number_systems.real_functions import NO_OVERFLOW
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.real_numbers import same_in_fields
from onnx_passes.proofs.runs import run
from tests.proofs.models import pair

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def _numbers(dtype: str) -> np.ndarray:
    """Return the ends of a type and of those that are narrower, and numbers beside them."""
    info = np.iinfo(dtype)
    ends = [number for width in (7, 8, 15, 16, 31, 32) for number in (2**width - 1, 2**width, -(2**width))]
    found = {0, 1, 5, -1, -7, info.min, info.min + 1, info.max, info.max - 1, *ends}
    # Doubles hold all of these.
    return np.array(sorted(each for each in found if info.min <= each <= info.max and abs(each) < 2**53), dtype)


def _pair(dtype: str, output: str, before: str, after: str, rows: int = 1) -> tuple[ir.Model, ir.Model, np.ndarray]:
    x = _numbers(dtype)
    x = x if rows == 1 else np.array(list(itertools.product(x, repeat=rows)), dtype)
    shape = ", ".join(map(str, x.shape))
    return *pair(f"{dtype}[{shape}] x => {output}[{x.shape[0]}] y", before, after), x


def _agree(first: ir.Model, second: ir.Model, x: np.ndarray) -> bool:
    a, b = (run(model, {"x": x}) for model in (first, second))
    assert a is not None
    assert b is not None
    return np.array_equal(a[0], b[0])


@pytest.mark.parametrize("middle", _INTEGERS)
@pytest.mark.parametrize("source", _INTEGERS)
def test_a_cast_between_integers_keeps_the_number_where_onnxruntime_does(source: str, middle: str):
    through = f"a = Cast <to = {ir.DataType[middle.upper()].value}> (x) y = Cast <to = 11> (a)"
    first, second, x = _pair(source, "double", through, "y = Cast <to = 11> (x)")
    same, assumed = same_in_fields(first, second, [0], fold=False)
    target = np.iinfo(middle)
    widens = target.min <= np.iinfo(source).min and np.iinfo(source).max <= target.max
    assert same is widens
    assert not assumed
    assert _agree(first, second, x) or not same
    assert isinstance(prove_equal(first, second, solver=False), Proof) is widens


_OVERFLOWING = {
    "Neg": ("a = Neg(x) y = Cast <to = 11> (a)", "a = Cast <to = 11> (x) y = Neg(a)", 1),
    "Abs": ("a = Abs(x) y = Cast <to = 11> (a)", "a = Cast <to = 11> (x) y = Abs(a)", 1),
    "Add": ("a = Add(x, x) y = Cast <to = 11> (a)", "a = Cast <to = 11> (x) y = Add(a, a)", 1),
    "Sub": ("n = Neg(x) a = Sub(x, n) y = Cast <to = 11> (a)", "a = Cast <to = 11> (x) y = Add(a, a)", 1),
    "Mul": ("a = Mul(x, x) y = Cast <to = 11> (a)", "a = Cast <to = 11> (x) y = Mul(a, a)", 1),
    "ReduceSum": (
        "i = Constant <value_ints = [1]> () a = ReduceSum <keepdims = 0> (x, i) y = Cast <to = 11> (a)",
        "i = Constant <value_ints = [1]> () a = Cast <to = 11> (x) y = ReduceSum <keepdims = 0> (a, i)",
        2,
    ),
    "ReduceProd": (
        "i = Constant <value_ints = [1]> () a = ReduceProd <keepdims = 0> (x, i) y = Cast <to = 11> (a)",
        "i = Constant <value_ints = [1]> () a = Cast <to = 11> (x) y = ReduceProd <keepdims = 0> (a, i)",
        2,
    ),
    "ReduceSumSquare": (
        "i = Constant <value_ints = [1]> () a = ReduceSumSquare <keepdims = 0> (x, i) y = Cast <to = 11> (a)",
        "i = Constant <value_ints = [1]> () a = Cast <to = 11> (x) y = ReduceSumSquare <keepdims = 0> (a, i)",
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _OVERFLOWING)
def test_real_numbers_assume_that_integers_do_not_overflow(name: str):
    before, after, rows = _OVERFLOWING[name]
    first, second, x = _pair("int32", "double", before, after, rows)
    assert not _agree(first, second, x)
    same, assumed = same_in_fields(first, second, [0], fold=False)
    assert not same or NO_OVERFLOW in assumed
    found = prove_equal(first, second, solver=False)
    assert not isinstance(found, Proof) or found.level == "tested"


@pytest.mark.parametrize("name", ["Neg", "Abs"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int64"])
def test_the_least_integer_has_no_positive_one(name: str, dtype: str):
    before, after, _ = _OVERFLOWING[name]
    first, second, x = _pair(dtype, "double", before, after)
    x = np.full_like(x, np.iinfo(dtype).min)
    if run(first, {"x": x}) is None:
        pytest.skip("ONNX Runtime has no kernel for it")
    assert not _agree(first, second, x)
    assert same_in_fields(first, second, [0], fold=False) == (True, (NO_OVERFLOW,))
    assert not isinstance(prove_equal(first, second, solver=False), Proof)


@pytest.mark.parametrize("name", [name for name, (_, _, rows) in _OVERFLOWING.items() if rows == 1])
def test_overflow_is_not_taken_for_rounding_where_terms_are_too_many(name: str, monkeypatch: pytest.MonkeyPatch):
    # Special values are not tried then, so that only the assumption speaks of them.
    monkeypatch.setattr("onnx_passes.ops.number_systems.terms.Terms.most", 4)
    before, after, rows = _OVERFLOWING[name]
    first, second, _ = _pair("int32", "double", before, after, rows)
    found = prove_equal(first, second, solver=False)
    assert not isinstance(found, Proof) or found.level == "tested"
