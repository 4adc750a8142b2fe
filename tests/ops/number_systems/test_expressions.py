"""Random expressions: their normal forms are worth the same, bit by bit, and real numbers are what doubles are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.numbers.arithmetic import ExactArithmetic, UnknownOperatorError
from onnx_passes.numbers.surds import exactly, nearest
from onnx_passes.ops.number_systems import scalars, values
from onnx_passes.ops.number_systems.field import Field, compared
from onnx_passes.ops.number_systems.real_functions import RealAlgebra
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms

I8, U8, BOOL = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.BOOL
F16, F32, F64, BF16 = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, 2.0, 0.1, -7.5, np.inf, -np.inf, np.nan, 65504.0, 6e-8]
WHOLE = [0, 1, -1, 2, 3, 5, 7, -3, 100, 127, -128, 64, 255, 200, 129]


class Raw(Terms):
    """Terms as they are written."""

    def make(self, symbol: Symbol, args: tuple[int, ...]) -> int:
        return self.intern(symbol, args)


UNARY = {True: ("Neg", "Abs", "Floor", "Ceil", "Round", "Relu", "Sign", "Sqrt"), False: ("Neg", "Abs")}
BINARY = {True: ("Add", "Sub", "Mul", "Div", "Max", "Min"), False: ("Add", "Sub", "Mul", "Div", "Max", "Min")}
BITS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
COMPARED = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")


def expression(rng: np.random.Generator, dtype: ir.DataType, depth: int):
    """Draw nested tuples: a symbol and its operands, a variable by name, or a number."""
    is_float = dtype.is_floating_point()
    kind = int(rng.integers(9)) if depth else 8
    if kind == 8:
        pool = [*SPECIAL, "x", "y", "x", "y"] if is_float else [*WHOLE, "x", "y", "x", "y", "x", "y"]
        found = pool[int(rng.integers(len(pool)))]
        return found if isinstance(found, str) or is_float or dtype.min <= found <= dtype.max else "x"
    inner = [expression(rng, dtype, depth - 1) for _ in range(3)]
    if kind == 0 and (is_float or dtype is I8):
        return Symbol(str(rng.choice(UNARY[is_float])), dtype, (dtype,)), inner[0]
    if kind == 1:
        compare = Symbol(str(rng.choice(COMPARED)), BOOL, (dtype, dtype))
        return Symbol("Where", dtype, (BOOL, dtype, dtype)), (compare, inner[0], inner[1]), inner[2], inner[0]
    if kind == 2 and is_float:
        other = (F32, F16, BF16)[int(rng.integers(3))]
        return Symbol("Cast", dtype, (other,)), (Symbol("Cast", other, (dtype,)), inner[0])
    if kind == 3 and is_float:
        return Symbol("Cast", dtype, (I8,)), (Symbol("Cast", I8, (dtype,)), inner[0])
    if kind == 4 and not is_float:
        return Symbol(str(rng.choice(BITS)), dtype, (dtype, dtype)), inner[0], inner[1]
    if kind == 5 and dtype is U8:
        way = str(rng.choice(["LEFT", "RIGHT"]))
        return Symbol("BitShift", dtype, (dtype, dtype), (way,)), inner[0], int(rng.integers(0, 10))
    return Symbol(str(rng.choice(BINARY[is_float])), dtype, (dtype, dtype)), inner[0], inner[1]


def written(terms: Terms, given, dtype: ir.DataType) -> int:
    if isinstance(given, str):
        return terms.intern(Symbol(VARIABLE, dtype, (), (given, 0)), ())
    if not isinstance(given, tuple):
        return terms.number(dtype, np.asarray(given).astype(dtype.numpy()))
    symbol, *operands = given
    return terms.make(symbol, tuple(written(terms, x, s) for x, s in zip(operands, symbol.sources, strict=True)))


@pytest.mark.parametrize("dtype", [I8, U8, F16, F32, BF16], ids=str)
def test_normal_forms_are_worth_what_is_written(dtype: ir.DataType):
    pool = SPECIAL if dtype.is_floating_point() else [n for n in WHOLE if dtype.min <= n <= dtype.max]
    with np.errstate(all="ignore"):
        grid = np.meshgrid(*[np.array(pool).astype(dtype.numpy())] * 2)
    feeds = dict(zip("xy", (array.reshape(-1) for array in grid), strict=True))
    changed = 0
    for seed in range(600):
        given = expression(np.random.default_rng(seed), dtype, 3)
        found = []
        for terms in (Raw(), Terms()):
            root = written(terms, given, dtype)
            variables = {
                term: feeds[str(symbol.params[0])]
                for term, symbol in enumerate(terms.symbols)
                if symbol.name == VARIABLE
            }
            variables = variables or {written(terms, "x", dtype): feeds["x"]}
            found.append((values.compute(terms, (root,), variables), root, len(terms.symbols)))
        (raw, a, before), (normal, b, after) = found
        changed += before != after
        wrong = ~values.same(*np.broadcast_arrays(raw.of[a], normal.of[b])) & ~raw.undefined
        assert not wrong.any(), (given, raw.of[a][wrong][:1], normal.of[b])
    assert changed > 200


def variable(terms: Terms, name: str, dtype: ir.DataType) -> int:
    return terms.intern(Symbol(VARIABLE, dtype, (), (name, 0)), ())


@pytest.mark.parametrize("name", ["Max", "Min"])
def test_extremes_of_floats_depend_on_their_order_unless_signs_of_zeros_do_not_count(name: str):
    for flags, same in (((), False), (("nsz",), True)):
        terms = Terms(flags=flags)
        x, y = variable(terms, "x", F32), variable(terms, "y", F32)
        symbol = Symbol(name, F32, (F32, F32))
        assert (terms.make(symbol, (x, y)) == terms.make(symbol, (y, x))) == same


REAL = {
    **dict.fromkeys(("Abs", "Neg", "Relu", "Floor", "Ceil", "Round", "Sign", "Identity", "Exp", "Tanh", "Erf"), 1),
    **dict.fromkeys(("Sigmoid", "Softplus", "Sinh", "Cosh", "Softsign", "Mish", "HardSwish", "Atan", "Asinh"), 1),
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min", "Mean", "PRelu"), 2),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"), 2),
    "Clip": 3,
}
PARAMS = {
    "LeakyRelu": (0.25,), "Elu": (0.5,), "Celu": (0.5,), "Selu": (1.5, 2.0), "HardSigmoid": (0.25, 0.5), "Swish": (0.5,)
}  # fmt: skip


@pytest.mark.parametrize("name", [*REAL, *PARAMS, "Gelu", "GeluTanh"])
def test_real_functions_are_what_doubles_compute(name: str):
    count, params = REAL.get(name, 1), PARAMS.get(name, ())
    params = ("tanh" if name == "GeluTanh" else "none",) if name.startswith("Gelu") else params
    rng = np.random.default_rng(len(name))
    operands = [rng.integers(-12, 13, 60) / 4 for _ in range(count)]
    dtype = BOOL if name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal") else F64
    symbol = Symbol(name.removesuffix("Tanh") if name == "GeluTanh" else name, dtype, (F64,) * count, params)
    algebra = RealAlgebra(ExactArithmetic())
    found = algebra.scalar(symbol, [exactly(array) for array in operands])
    known = Symbol("Celu" if name == "Celu" else symbol.name, dtype, symbol.sources, params)
    expected = scalars.compute(known, [np.asarray(array) for array in operands])
    np.testing.assert_allclose(nearest(np.asarray(found)), expected.astype(np.float64), rtol=1e-6, atol=1e-9)


def test_numbers_that_a_cast_cannot_hold_are_refused():
    algebra = RealAlgebra(ExactArithmetic())
    symbol = Symbol("Cast", I8, (F64,))
    assert nearest(algebra.scalar(symbol, [exactly(np.array([-3.75, 127.5, -128.0]))])).tolist() == [-3, 127, -128]
    for number in (128.0, -129.0, 1e9):
        with pytest.raises(UnknownOperatorError):
            algebra.scalar(symbol, [exactly(np.array([number]))])


def test_points_without_a_root_tell_nothing():
    field = Field(0)
    one, other = (field.variable(name, F64, [1]) for name in "ab")
    for same_points, rootless, wanted in (
        ((), (), (False, True)),
        ((0,), (), (False, True)),
        ((0, 1, 2), (), (False, True)),
        ((0, 1, 2, 3), (), (True, False)),
        ((0, 1, 2), (3,), (True, False)),
        ((0,), (1, 2, 3), (True, False)),
        ((), (0, 1, 2, 3), (False, False)),
        ((0, 1), (2,), (False, True)),
    ):
        made = other.copy()
        made["at"][..., list(same_points)] = one["at"][..., list(same_points)]
        made["rootless"][...] = False
        made["rootless"][..., list(rootless)] = True
        for pair in ((one, made), (made, one)):
            same, different = compared(*pair)
            assert (bool(same[0]), bool(different[0])) == wanted, (same_points, rootless)


def test_constants_of_a_field_are_told_apart():
    numbers = [0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e300, 2.0**-1000, float(np.finfo(np.float64).max)]
    at = Field(0).constant(F64, np.array(numbers))["at"]
    assert len({tuple(row) for row in at.tolist()}) == len(numbers)
    third = Field(0).constant(F64, np.array([3.0, 1.5]))["at"]
    assert third.tolist() == Field(5).constant(F64, np.array([3.0, 1.5]))["at"].tolist()


def test_runtimes_may_differ_where_the_standard_says_nothing():
    def undefined(
        name: str, dtype: ir.DataType, *operands: float, source: ir.DataType | None = None, params=()
    ) -> bool:
        kind = source or dtype
        arrays = [np.asarray(x).astype(kind.numpy()) for x in operands]
        return bool(np.any(scalars.undefined(Symbol(name, dtype, (kind,) * len(arrays), params), arrays)))

    for name in ("Max", "Min"):
        assert undefined(name, F32, 0.0, -0.0)
        assert undefined(name, F32, -0.0, 0.0)
        assert not undefined(name, F32, 0.0, 0.0)
        assert not undefined(name, F32, -0.0, -0.0)
        assert not undefined(name, F32, 0.0, -1.0)
    for number, wanted in (
        (127.9, False),
        (128.0, True),
        (-128.9, False),
        (-129.0, True),
        (np.nan, True),
        (np.inf, True),
    ):
        assert undefined("Cast", I8, number, source=F32) == wanted, number
    assert not undefined("Cast", F32, np.inf, source=F64)
    assert undefined("Div", I8, 1, 0)
    assert not undefined("Div", F32, 1, 0)
    assert undefined("Mod", I8, 1, 0, params=(0,))
    assert undefined("Mod", F32, 1, 2, params=(0,))
    assert not undefined("Mod", F32, 1, 2, params=(1,))
    for name in ("Exp", "Log", "Tanh", "Sigmoid", "Sin", "Erf", "Reciprocal", "Pow", "Gelu", "Elu", "Softplus"):
        assert not scalars.is_settled(Symbol(name, F32, (F32,)))
    for name in ("Add", "Mul", "Div", "Sqrt", "Floor", "Relu", "Abs"):
        assert scalars.is_settled(Symbol(name, F32, (F32,)))


def test_the_exact_oracle_is_one_of_fractions():
    algebra = RealAlgebra(ExactArithmetic())
    third = np.array([Fraction(1, 3), None], object)[:-1]
    found = algebra.scalar(Symbol("Mul", F64, (F64, F64)), [third, third])
    assert found.tolist() == [Fraction(1, 9)]


def test_casts_by_way_of_a_type_that_does_not_hold_all_are_kept():
    wide, long = ir.DataType.INT32, ir.DataType.INT64
    for origin, between, target in (
        (wide, F16, wide),
        (wide, F32, wide),
        (long, F64, long),
        (wide, F64, I8),
        (F32, F16, F32),
        (F16, BF16, F16),
        (wide, I8, wide),
    ):
        terms = Terms()
        x = variable(terms, "x", origin)
        through = terms.make(Symbol("Cast", between, (origin,)), (x,))
        found = terms.make(Symbol("Cast", target, (between,)), (through,))
        direct = x if origin is target else terms.make(Symbol("Cast", target, (origin,)), (x,))
        assert found != direct, (origin, between, target)


def test_constants_are_one_by_their_type_and_bits_and_all_nan_are():
    terms = Terms()
    for dtype, unsigned, first in ((F32, np.uint32, 0x7FC00000), (F64, np.uint64, 0x7FF8000000000000)):
        nans = np.array([first, first + 12345, first | (1 << (dtype.bitwidth - 1))], unsigned).view(dtype.numpy())
        assert len({terms.number(dtype, nan) for nan in nans}) == 1
        assert len(set(terms.constant(dtype, nans).tolist())) == 1
        assert terms.number(dtype, np.array(0.0)) != terms.number(dtype, np.array(-0.0))
    assert terms.number(I8, np.array(0)) != terms.number(U8, np.array(0))
    assert terms.number(F32, np.array(0.0)) != terms.number(ir.DataType.INT32, np.array(0))


def test_what_engines_approximate_is_not_computed():
    terms = Terms()
    one = terms.number(F32, np.array(1.0))
    for name in ("Exp", "Tanh", "Sigmoid", "Erf", "Reciprocal"):
        assert terms.symbols[terms.make(Symbol(name, F32, (F32,)), (one,))].name == name
    assert terms.make(Symbol("Add", F32, (F32, F32)), (one, one)) == terms.number(F32, np.array(2.0))
    zeros = terms.number(F32, np.array(0.0)), terms.number(F32, np.array(-0.0))
    assert terms.symbols[terms.make(Symbol("Max", F32, (F32, F32)), zeros)].name == "Max"


def test_values_say_where_engines_may_differ():
    terms = Terms()
    x, y = variable(terms, "x", F32), variable(terms, "y", F32)
    feeds = {x: np.array([0.0, 1.0], np.float32), y: np.array([-0.0, 2.0], np.float32)}
    extreme = terms.intern(Symbol("Max", F32, (F32, F32)), (x, y))
    found = values.compute(terms, (extreme,), feeds)
    assert found.undefined.tolist() == [True, False]
    assert found.settled
    total = terms.intern(Symbol("ReduceSum", F32, (F32,)), (x, y))
    assert not values.compute(terms, (total,), feeds).settled
    assert not values.compute(terms, (terms.intern(Symbol("Exp", F32, (F32,)), (x,)),), feeds).settled
    pairs = np.array([[0.0, -0.0], [0.0, 0.0], [np.nan, np.nan], [1.0, 2.0], [-0.0, -0.0], [np.nan, 1.0]], np.float32)
    assert values.same(pairs[:, 0], pairs[:, 1]).tolist() == [False, True, True, False, True, False]
