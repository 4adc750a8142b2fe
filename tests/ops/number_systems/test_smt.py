"""The solver is told what operators compute, and nothing where that is not defined."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems import smt
from onnx_passes.ops.number_systems.rings import POLYNOMIAL
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.proofs.samples import Domain
from tests.passes.tools import model_of

z3 = pytest.importorskip("z3")

F8, F16, F32, F64 = (ir.DataType[name] for name in ("FLOAT8E5M2", "FLOAT16", "FLOAT", "DOUBLE"))
I8, U8, I16, I32, U32 = (ir.DataType[name] for name in ("INT8", "UINT8", "INT16", "INT32", "UINT32"))


class Written:
    """Terms as they are written, with variables by name."""

    def __init__(self) -> None:
        self.terms = Terms()
        self.leaves: dict[int, ir.DataType] = {}

    def variable(self, name: str, dtype: ir.DataType) -> int:
        made = self.terms.intern(Symbol(VARIABLE, dtype, (), (name, 0)), ())
        self.leaves[made] = dtype
        return made

    def number(self, dtype: ir.DataType, value: float) -> int:
        return self.terms.number(dtype, np.asarray(value).astype(dtype.numpy()))

    def apply(self, name: str, dtype: ir.DataType, *args: int, params: tuple[Any, ...] = ()) -> int:
        sources = tuple(self.terms.symbols[arg].dtype for arg in args)
        return self.terms.intern(Symbol(name, dtype, sources, params), args)

    def is_valid(self, a: int, b: int) -> bool:
        """Ask whether two terms are the same for all values of variables."""
        translation = smt.Translation(self.terms, self.leaves)
        solver = z3.Solver()
        solver.set("timeout", 20_000)
        solver.add(z3.Not(translation.equation(a, b)))
        return str(solver.check()) == "unsat"


@pytest.fixture
def w() -> Written:
    return Written()


def test_equal_means_every_bit_but_those_of_nan(w: Written):
    x, zero = w.variable("x", F32), w.number(F32, 0.0)
    assert w.is_valid(x, x)
    assert not w.is_valid(w.apply("Add", F32, x, zero), x)
    assert w.is_valid(w.apply("Add", F32, x, w.number(F32, -0.0)), x)
    assert not w.is_valid(zero, w.number(F32, -0.0))
    assert w.is_valid(w.number(F32, np.nan), w.number(F32, np.nan))


def test_unknown_functions_are_told_apart_by_attributes_and_are_functions(w: Written):
    x, y = w.variable("x", F32), w.variable("y", F32)
    f = w.apply("Elu", F32, x, params=(1.0,))
    assert not w.is_valid(f, w.apply("Elu", F32, x, params=(2.0,)))
    assert not w.is_valid(f, w.apply("Elu", F32, y, params=(1.0,)))
    assert not w.is_valid(f, w.apply("Celu", F32, x, params=(1.0,)))
    assert w.is_valid(f, w.apply("Elu", F32, w.apply("Neg", F32, w.apply("Neg", F32, x)), params=(1.0,)))


@pytest.mark.parametrize("dtype", [I8, U8], ids=str)
@pytest.mark.parametrize("name", ["Div", "Mod"])
def test_a_quotient_by_zero_is_anything(w: Written, name: str, dtype: ir.DataType):
    zero, params = w.number(dtype, 0), (1,) if name == "Mod" else ()
    quotients = [w.apply(name, dtype, w.number(dtype, number), zero, params=params) for number in (1, 2)]
    assert not w.is_valid(*quotients)
    for number in (0, 1, 2, 127):
        assert not w.is_valid(quotients[0], w.number(dtype, number))


@pytest.mark.parametrize("name", ["Max", "Min"])
def test_the_larger_of_two_zeros_is_either(w: Written, name: str):
    plus, minus = w.number(F32, 0.0), w.number(F32, -0.0)
    found = w.apply(name, F32, plus, minus)
    assert not w.is_valid(found, plus)
    assert not w.is_valid(found, minus)
    nan = w.number(F32, np.nan)
    assert w.is_valid(w.apply(name, F32, nan, plus), nan)
    assert w.is_valid(w.apply(name, F32, plus, nan), nan)


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"), [(U8, (100, 150, 200), (99, 201, 255, 0)), (I8, (-100,), (0,))]
)
def test_a_domain_holds_its_ends_and_no_more(w: Written, dtype: ir.DataType, inside, outside):
    x = w.variable("x", dtype)
    domain = Domain(100, 200) if dtype is U8 else Domain(-128, -1)
    for number in (*inside, *outside):
        translation = smt.Translation(w.terms, w.leaves)
        solver = z3.Solver()
        solver.add(translation.within(x, domain), translation.of(x) == translation.number(dtype, number))
        assert (str(solver.check()) == "sat") == (number in inside), number


def test_unsigned_integers_are_compared_and_shifted_as_such(w: Written):
    x, top = w.variable("x", U8), w.number(U8, 200)
    assert w.is_valid(w.apply("Abs", U8, x), x)
    assert w.is_valid(w.apply("Relu", U8, x), x)
    assert w.is_valid(w.apply("Max", U8, top, w.number(U8, 1)), top)
    assert w.is_valid(w.apply("BitShift", U8, top, w.number(U8, 1), params=("RIGHT",)), w.number(U8, 100))
    assert w.is_valid(w.apply("Div", U8, top, w.number(U8, 2)), w.number(U8, 100))


@pytest.mark.parametrize(
    ("source", "number", "target", "expected"),
    [
        (U8, 200, I16, 200),
        (I8, -56, I16, -56),
        (U8, 200, I8, -56),
        (I16, 511, U8, 255),
        (U8, 200, F32, 200.0),
        (I8, -56, F16, -56.0),
        (F32, -2.75, I32, -2),
        (F32, 2.75, U8, 2),
        (F32, 1e10, F16, np.inf),
        (F32, 16777217.0, F16, np.inf),
        (F64, 1 + 2.0**-30, F32, 1.0),
    ],
)
def test_casts_are_those_of_numpy(w: Written, source, number, target, expected):
    cast = w.apply("Cast", target, w.number(source, number), params=(1,))
    assert w.is_valid(cast, w.number(target, expected))


def test_casts_that_are_not_defined_are_anything(w: Written):
    """Beyond a type of integers the machine decides; a short float holds its largest number or an infinity."""
    for target, number in ((U8, -3.0), (U8, 300.0), (I8, 128.0), (I8, np.nan), (U32, -1.5)):
        cast = w.apply("Cast", target, w.number(F32, number), params=(1,))
        for guess in (0, 1, int(target.max)):
            assert not w.is_valid(cast, w.number(target, guess)), (target, number, guess)
    short = w.apply("Cast", F8, w.number(F32, 1e9), params=(1,))
    assert not w.is_valid(short, w.number(F8, np.inf))
    assert not w.is_valid(short, w.number(F8, 57344.0))


@pytest.mark.parametrize("slope", [0.01, 0.3])
@pytest.mark.parametrize("number", [-3.7, -1e300, 2.5])
def test_slopes_are_those_of_the_reference(w: Written, slope: float, number: float):
    """Attributes are of single precision, whatever the operand is; ONNX Runtime knows this operator of floats only."""
    given = model_of(f"g (double[1] x) => (double[1] y) {{ y = LeakyRelu <alpha = {slope}> (x) }}")
    (expected,) = ReferenceEvaluator(ir.to_proto(given)).run(None, {"x": np.array([number])})
    leaky = w.apply("LeakyRelu", F64, w.number(F64, number), params=(slope,))
    assert w.is_valid(leaky, w.number(F64, float(expected[0])))


def test_polynomials_have_their_coefficients(w: Written):
    x, y = w.variable("x", I8), w.variable("y", I8)
    found = w.apply(POLYNOMIAL, I8, x, y, params=((2, (0,)), (1, (1, 1)), (3, ())))
    square = w.apply("Mul", I8, y, y)
    double = w.apply("Add", I8, x, x)
    assert w.is_valid(found, w.apply("Add", I8, w.apply("Add", I8, double, square), w.number(I8, 3)))
    assert not w.is_valid(found, w.apply("Add", I8, w.apply("Add", I8, x, square), w.number(I8, 3)))


def test_sums_of_floats_are_rounded_to_the_nearest(w: Written):
    tie = w.apply("Add", F16, w.number(F16, 2048.0), w.number(F16, 1.0))
    assert w.is_valid(tie, w.number(F16, 2048.0))
    up = w.apply("Add", F16, w.number(F16, 2050.0), w.number(F16, 1.0))
    assert w.is_valid(up, w.number(F16, 2052.0))
    assert w.is_valid(w.apply("Round", F32, w.number(F32, 2.5)), w.number(F32, 2.0))
    assert w.is_valid(w.apply("Round", F32, w.number(F32, -2.5)), w.number(F32, -2.0))


@pytest.mark.parametrize(("negative", "positive"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_infinities_are_of_the_sign_that_is_asked_for(w: Written, negative: int, positive: int):
    for number, expected in ((np.inf, positive), (-np.inf, negative), (np.nan, 0), (3e38, 0)):
        found = w.apply("IsInf", ir.DataType.BOOL, w.number(F32, number), params=(negative, positive))
        assert w.is_valid(found, w.number(ir.DataType.BOOL, bool(expected))), number


def test_exact_products_of_floats_are_not_rounded_ones(w: Written):
    x, y = w.variable("x", F32), w.variable("y", F32)
    assert not w.is_valid(w.apply("Product", F32, x, y), w.apply("Mul", F32, x, y))
