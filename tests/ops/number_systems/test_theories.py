"""Scalar functions are the same in numpy and in the theories of the solver, on special and on random numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems import scalars, smt
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.number_systems.values import same
from onnx_passes.proofs.decide import smt_number
from onnx_passes.proofs.samples import Domain, all_inputs, some_inputs, values_of

z3 = pytest.importorskip("z3")

I8, U8, I32, BOOL = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.BOOL
F16, F32, BF16 = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.BFLOAT16
FLOATS = [0.0, -0.0, 0.25, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, -3.75, 6e-8, np.inf, -np.inf, np.nan, 100.0, 7.0, -0.3]
INTEGERS = [0, 1, 2, 3, 7, 100, 127, -1, -2, -3, -7, -100, -127, -128, 200, 255]
UNARY = ("Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "IsNaN", "Relu", "Sign")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
COMPARED = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")


def numbers(dtype: ir.DataType) -> list[Any]:
    if dtype is BOOL:
        return [False, True]
    if dtype.is_floating_point():
        return FLOATS
    return [number for number in INTEGERS if dtype.min <= number <= dtype.max]


def cases() -> list[tuple[Symbol, tuple[ir.DataType, ...]]]:
    found: list[tuple[Symbol, tuple[ir.DataType, ...]]] = []
    for dtype in (F16, F32, BF16, I8, U8):
        is_float = dtype.is_floating_point()
        found += [(Symbol(n, dtype, (dtype,)), (dtype,)) for n in UNARY if is_float and n not in ("IsNaN", "Sign")]
        found += [(Symbol(n, dtype, (dtype, dtype)), (dtype, dtype)) for n in BINARY]
        found += [(Symbol(n, BOOL, (dtype, dtype)), (dtype, dtype)) for n in COMPARED]
        found += [(Symbol("Where", dtype, (BOOL, dtype, dtype)), (BOOL, dtype, dtype))]
        found += [(Symbol("Sign", dtype, (dtype,)), (dtype,))]
        if is_float:
            found += [
                (Symbol("Clip", dtype, (dtype,) * 3), (dtype,) * 3),
                (Symbol("PRelu", dtype, (dtype,) * 2), (dtype,) * 2),
            ]
            found += [(Symbol(n, dtype, (dtype,), (0.25,)), (dtype,)) for n in ("LeakyRelu", "ThresholdedRelu")]
            found += [(Symbol("IsNaN", BOOL, (dtype,)), (dtype,))]
            found += [
                (Symbol("IsInf", BOOL, (dtype,), (negative, positive)), (dtype,))
                for negative, positive in itertools.product((0, 1), repeat=2)
            ]
        else:
            found += [(Symbol(n, dtype, (dtype,)), (dtype,)) for n in ("Neg", "Abs", "BitwiseNot") if dtype is I8]
            found += [(Symbol("Mod", dtype, (dtype, dtype), (fmod,)), (dtype, dtype)) for fmod in (0, 1)]
            found += [(Symbol(f"Bitwise{n}", dtype, (dtype, dtype)), (dtype, dtype)) for n in ("And", "Or", "Xor")]
    found += [(Symbol("BitShift", U8, (U8, U8), (way,)), (U8, U8)) for way in ("LEFT", "RIGHT")]
    found += [(Symbol(n, BOOL, (BOOL, BOOL)), (BOOL, BOOL)) for n in ("And", "Or", "Xor", "Equal")]
    found += [(Symbol("Not", BOOL, (BOOL,)), (BOOL,))]
    kinds = (F16, F32, BF16, I8, U8, I32, BOOL)
    found += [(Symbol("Cast", to, (of,), (1,)), (of,)) for of, to in itertools.permutations(kinds, 2)]
    return found


CASES = cases()


@pytest.mark.parametrize(
    ("symbol", "kinds"), CASES, ids=[f"{s.name}-{s.dtype}-{s.sources}-{s.params}" for s, _ in CASES]
)
def test_numpy_and_the_solver_agree(symbol: Symbol, kinds: tuple[ir.DataType, ...]):
    terms = Terms()
    told = 0
    pools = [numbers(kind)[:: 1 if len(kinds) < 3 else 5] for kind in kinds]
    for given in itertools.product(*pools):
        with np.errstate(all="ignore"):
            operands = [np.asarray(x).astype(kind.numpy()) for x, kind in zip(given, kinds, strict=True)]
        if bool(np.any(scalars.undefined(symbol, operands))):
            continue
        expected = scalars.compute(symbol, operands)
        assert expected.dtype == symbol.dtype.numpy()
        args = tuple(terms.number(kind, x) for kind, x in zip(kinds, operands, strict=True))
        translation = smt.Translation(terms, {})
        found = z3.simplify(translation.of(terms.intern(symbol, args)))
        if not (z3.is_fp_value(found) or z3.is_bv_value(found) or z3.is_true(found) or z3.is_false(found)):
            continue
        told += 1
        array = np.asarray(smt_number(found, translation, symbol.dtype)).astype(symbol.dtype.numpy())
        assert same(array, expected).all(), (given, array, expected)
    if symbol.name not in ("Mod", "Cast", "LeakyRelu"):
        assert told > 1


def test_domains_are_told_to_the_solver():
    for dtype, inside, outside in (
        (F32, (-2.0, 0.5, 3.0), (-2.5, 3.5, np.nan, np.inf)),
        (I8, (-2, 0, 3), (-3, 4, 127, -128)),
        (U8, (0, 3), (4, 255)),
    ):
        terms = Terms()
        term = terms.intern(Symbol("variable", dtype, (), ("x", 0)), ())
        for number in (*inside, *outside):
            translation = smt.Translation(terms, {term: dtype})
            solver = z3.Solver()
            solver.add(translation.within(term, Domain(max(-2.0, float(dtype.min)), 3.0)))
            solver.add(translation.of(term) == translation.number(dtype, number))
            assert (str(solver.check()) == "sat") == (number in inside), (dtype, number)


@pytest.mark.parametrize("dtype", [F16, BF16, I8, U8, BOOL, ir.DataType.FLOAT8E5M2], ids=str)
def test_all_numbers_of_a_short_type_are_tried(dtype: ir.DataType):
    found = values_of(dtype)
    assert found is not None
    assert len(np.unique(found.view(f"u{found.dtype.itemsize}"))) == (2 if dtype is BOOL else 1 << dtype.bitwidth)
    assert values_of(F32) is None
    assert values_of(I32) is None


@pytest.mark.parametrize(
    ("dtype", "domain", "expected"),
    [
        (F32, Domain(-1.0, 1.0, 0.5), [-1, -0.5, 0, 0.5, 1]),
        (F32, Domain(-0.75, 0.9, 0.5), [-0.5, 0, 0.5]),
        (F32, Domain(1.0, 2.0, 1.0), [1, 2]),
        (I32, Domain(-3, 2), [-3, -2, -1, 0, 1, 2]),
        (I8, Domain(-3, 4, 2), [-2, 0, 2, 4]),
    ],
)
def test_all_numbers_of_a_domain_are_tried(dtype: ir.DataType, domain: Domain, expected: list[float]):
    found = values_of(dtype, domain)
    assert found is not None
    assert sorted(set(found.astype(float).tolist())) == expected
    if dtype.is_floating_point() and 0 in expected:
        zeros = found[found == 0]
        assert set(np.signbit(zeros).tolist()) == {False, True}
    assert domain.contains(found).all()


def test_every_combination_is_tried_or_none():
    found = all_inputs({0: BOOL, 1: I8}, {})
    assert found is not None
    assert len(set(zip(found[0].tolist(), found[1].tolist(), strict=True))) == 512
    assert all_inputs({0: F16, 1: I8}, {}) is None
    assert all_inputs({0: F32}, {}) is None
    assert all_inputs({0: F16}, {}) is not None


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("dtype", [F32, F16, I32, U8, BOOL], ids=str)
def test_special_numbers_are_tried_for_every_variable(count: int, dtype: ir.DataType):
    constant = np.asarray(37.0).astype(dtype.numpy())
    found = some_inputs(dict.fromkeys(range(count), dtype), {}, [constant])
    assert len({len(array) for array in found.values()}) == 1
    for array in found.values():
        wide = array.astype(np.float64)
        if dtype.is_floating_point():
            assert np.isnan(wide).any()
            assert {np.inf, -np.inf, 0.0, 1.0, -1.0} <= set(wide[~np.isnan(wide)].tolist())
            assert set(np.signbit(wide[wide == 0]).tolist()) == {False, True}
            assert (np.abs(wide[np.isfinite(wide)]) == float(dtype.max)).any()
            beside = np.nextafter(constant, np.asarray(np.inf, constant.dtype)), constant
            assert count > 2 or all((array == number).any() for number in beside)
        elif dtype is not BOOL:
            assert {int(dtype.min), int(dtype.max), 0, 1} <= set(array.tolist())
            assert count > 2 or {36, 37, 38} <= set(array.tolist())
        else:
            assert set(array.tolist()) == {False, True}


def test_what_is_outside_of_a_domain_is_not_tried():
    for step in (None, 0.25):
        domain = Domain(-1.0, 2.0, step)
        found = some_inputs({0: F32, 1: F32, 2: F32}, {1: domain}, [])
        assert domain.contains(found[1]).all()
        assert (found[1] == -1).any()
        assert (found[1] == 2).any()
        assert not domain.contains(found[0]).all()
