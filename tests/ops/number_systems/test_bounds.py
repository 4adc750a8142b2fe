"""Bounds of rounding, beside the worst that the standard model allows: never less, and not much more.

Every operand is taken at the ends of its range and off by all of its error, and the result is rounded as far as its
type allows; rational numbers say how far that is from the real result.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.bounds import Bound, NoBoundError, bounds, unit
from onnx_passes.ops.number_systems.nearly import Expansion
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.proofs.real_numbers import rounding
from onnx_passes.proofs.samples import Domain

F16, BF16, F32, F64 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE
UNITS = {F16: 2.0**-11, BF16: 2.0**-8, F32: 2.0**-24, F64: 2.0**-53}
Real = Fraction | float
Function = Callable[..., Real]


def of_symbol(symbol: Symbol, operands: Sequence[Bound]) -> Bound:
    """Bound one function of variables with errors."""
    terms = Terms()
    dtypes = symbol.sources or (symbol.dtype,) * len(operands)
    args = tuple(
        terms.intern(Symbol(VARIABLE, dtype, (), (f"x{place}", 0)), ())
        for place, dtype in zip(range(len(operands)), dtypes * len(operands), strict=False)
    )
    term = terms.intern(symbol, args)
    return bounds(terms, (term,), dict(zip(args, operands, strict=True)))[term]  # type: ignore[arg-type]


def worst(function: Function, operands: Sequence[Bound], roundings: float, u: float) -> tuple[float, float, float]:
    """Return the ends of a function on the corners of a box, and how far its computed results are from them."""
    reals: list[Real] = []
    far = 0.0
    for corner in itertools.product(*((x.low, x.high) for x in operands)):
        real = function(*map(Fraction, corner))
        reals.append(real)
        for signs in itertools.product((-1, 1), repeat=len(operands)):
            given = [Fraction(x) + sign * Fraction(b.error) for x, sign, b in zip(corner, signs, operands, strict=True)]
            computed = function(*given)
            for sign in (-1, 1):
                rounded = computed + sign * abs(computed) * Fraction(roundings) * Fraction(u)
                far = max(far, abs(float(rounded - real)))
    return float(min(reals)), float(max(reals)), far


def relu(x: Real) -> Real:
    return max(x, Fraction(0))


FUNCTIONS: dict[str, tuple[Function, int, float]] = {
    "Add": (lambda a, b: a + b, 2, 1),
    "Mul": (lambda a, b: a * b, 2, 1),
    "Product": (lambda a, b: a * b, 2, 0),
    "Div": (lambda a, b: a / b, 2, 1),
    "Neg": (lambda a: -a, 1, 0),
    "Reciprocal": (lambda a: 1 / a, 1, 1),
    "Abs": (abs, 1, 0),
    "Relu": (relu, 1, 0),
    "Max": (lambda *given: max(given), 3, 0),
    "Min": (lambda *given: min(given), 3, 0),
    "ReduceMax": (lambda *given: max(given), 3, 0),
    "PoolMax": (lambda *given: max(given), 2, 0),
    "ReduceMin": (lambda *given: min(given), 2, 0),
    "Cast": (lambda a: a, 1, 1),
    "Sqrt": (lambda a: math.sqrt(a), 1, 1),
    "Exp": (lambda a: math.exp(a), 1, 4),
    "Sigmoid": (lambda a: 1 / (1 + math.exp(-a)), 1, 4),
    "Tanh": (lambda a: math.tanh(a), 1, 4),
    "Erf": (lambda a: math.erf(a), 1, 4),
}
CHOOSING = frozenset({"Relu", "Abs", "Max", "Min", "ReduceMax", "ReduceMin", "PoolMax"})
IRRATIONAL = frozenset({"Sqrt", "Exp", "Sigmoid", "Tanh", "Erf"})
"""What is computed in doubles here."""
POSITIVE = frozenset({"Div", "Reciprocal", "Sqrt"})
LOOSE = {"Reciprocal": 5.0, "Exp": 2.1, "Sigmoid": 12.0, "Tanh": 12.0, "Erf": 12.0, "Sqrt": 1.5, "Div": 1.5}
"""How many times as much as the worst at its corners a bound may be: slopes are those of the steepest place."""
SIGNS = ((-1.5, 2.0), (0.5, 3.0), (-3.0, -0.25), (0.0, 2.0), (-2.0, 0.0), (1.25, 1.25))


def operands_of(name: str, count: int, dtype: ir.DataType, seed: int) -> list[Bound]:
    rng = np.random.default_rng([seed, *name.encode()])
    ends = [either for either in SIGNS if name not in POSITIVE or either[0] > 0]
    chosen = [ends[int(rng.integers(len(ends)))] for _ in range(count)]
    return [Bound(low, high, float(rng.choice([0, 1, 2, 16])) * UNITS[dtype]) for low, high in chosen]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", UNITS, ids=str)
def test_bounds_hold_at_the_worst_and_are_not_vacuous(name: str, dtype: ir.DataType):
    function, count, roundings = FUNCTIONS[name]
    if name in IRRATIONAL and dtype is F64:
        pytest.skip("doubles are no oracle of doubles")
    for seed in range(12):
        operands = operands_of(name, count, dtype, seed)
        sources = (F32,) if name == "Cast" else ()
        found = of_symbol(Symbol(name, dtype, sources), operands)
        low, high, far = worst(function, operands, roundings, UNITS[dtype])
        # Both ends of a magnitude may be those of numbers of either sign.
        low = 0.0 if name == "Abs" and operands[0].low < 0 < operands[0].high else low
        assert abs(found.low - low) <= 1e-9, (operands, found, low)
        assert abs(found.high - high) <= 1e-9, (operands, found, high)
        assert found.error >= far * (1 - 1e-9) - (1e-15 if name in IRRATIONAL else 0), (operands, found, far)
        least = UNITS[dtype] * 1e-3
        if name in CHOOSING:
            # What is chosen from some operands may be any of them, and be off as that is.
            least += max(operand.error for operand in operands)
        assert found.error <= LOOSE.get(name, 1.001) * far + least + 1e-30, (operands, found, far)


@pytest.mark.parametrize("dtype", UNITS, ids=str)
@pytest.mark.parametrize("count", [2, 5, 12])
@pytest.mark.parametrize("name", ["ReduceSum", "ReduceMean", "Mean", "Dot", "Gemm", "GemmOfBias"])
def test_sums_are_bounded_in_any_order(name: str, count: int, dtype: ir.DataType):
    rng, u = np.random.default_rng(count), UNITS[dtype]
    values = rng.choice([0.5, 1.0, -2.0, 3.0], count).tolist()
    # Some operands are far off: what they may be adds to what is rounded.
    errors = rng.choice([0.25, 0.5, 0.5, u], count).tolist()
    operands = [Bound(value, value, error) for value, error in zip(values, errors, strict=True)]
    factors = {"Gemm": [-2.0] * count, "GemmOfBias": [0.5] + [-2.0] * (count - 1)}.get(name, [1.0] * count)
    params = {"Gemm": (-2.0, 1.0, 0), "GemmOfBias": (-2.0, 0.5, 1), "Dot": (0,)}.get(name, ())
    found = of_symbol(Symbol(name.removesuffix("OfBias"), dtype, (), params), operands)
    share = 1 / count if "Mean" in name else 1.0
    total = sum(f * x for f, x in zip(factors, values, strict=True)) * share
    size = sum(abs(f) * (abs(x) + e) for f, x, e in zip(factors, values, errors, strict=True)) * share
    carried = sum(abs(f) * e for f, e in zip(factors, errors, strict=True)) * share
    # Products are rounded before, the results of means and of Gemm behind.
    roundings = count - 1 + (name in ("Dot", "Gemm", "GemmOfBias")) + ("Mean" in name) + ("Gemm" in name)
    assert found.low - 1e-9 <= total <= found.high + 1e-9
    assert found.high - found.low <= 1e-9
    assert found.error >= (carried + roundings * u * abs(total) / 2) * (1 - 1e-9)
    assert found.error >= carried + (count - 1 + (name in ("Dot", "Gemm", "GemmOfBias"))) * u * size * (1 - 1e-6)
    most = carried + (count + 6) * u * size * (1 + 4 * (count + 8) * u)
    assert found.error <= most * (1 + 2.0**-39) + 1e-40


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_what_onnxruntime_computes_of_sums_is_within_the_bound(dtype: ir.DataType):
    kind = dtype.numpy()
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = rng.normal(size=40).astype(kind)
        exact = sum(map(Fraction, x.tolist()), Fraction())
        found = of_symbol(Symbol("ReduceSum", dtype), [Bound(float(v), float(v)) for v in x])
        computed = kind.type(0) if hasattr(kind, "type") else kind(0)
        for number in x:
            computed = kind.type(computed + number) if hasattr(kind, "type") else kind(computed + number)
        assert abs(Fraction(float(computed)) - exact) <= Fraction(found.error)


@pytest.mark.parametrize("epsilon", [1e-5, 0.5])
def test_a_normalization_is_bounded_however_its_constants_are_merged(epsilon: float):
    u = 2.0**-24
    rng = np.random.default_rng(3)
    for _ in range(20):
        x, scale, bias, mean = (float(np.float32(v)) for v in rng.normal(size=4) * 2)
        variance = float(np.float32(rng.uniform(0.1, 2)))
        given = [Bound(v, v) for v in (x, scale, bias, mean, variance)]
        found = of_symbol(Symbol("BatchNormalization", F32, (), (epsilon,)), given)
        real = (x - mean) / math.sqrt(variance + epsilon) * scale + bias
        assert found.low - 1e-9 <= real <= found.high + 1e-9
        f = np.float32
        deviation = f(f(1) / np.sqrt(f(f(variance) + f(epsilon))))
        plain = f(f(f(f(x) - f(mean)) * deviation) * f(scale)) + f(bias)
        factor = f(f(scale) * deviation)
        merged = f(f(x) * factor) + f(f(bias) - f(f(mean) * factor))
        assert max(abs(float(plain) - real), abs(float(merged) - real)) <= found.error
        size = (abs(x) + abs(mean)) / math.sqrt(variance + epsilon) * abs(scale) + abs(bias)
        assert size * u <= found.error <= 16 * size * u


@pytest.mark.parametrize(
    ("symbol", "operands"),
    [
        (Symbol("Div", F32), [Bound(1, 2), Bound(-1, 1)]),
        (Symbol("Div", F32), [Bound(1, 2), Bound(0, 1)]),
        (Symbol("Div", F32), [Bound(1, 2), Bound(-1, 0)]),
        (Symbol("Div", F32), [Bound(1, 2), Bound(1, 2, 1)]),
        (Symbol("Reciprocal", F32), [Bound(-2, -1, 1)]),
        (Symbol("Sqrt", F32), [Bound(0, 1)]),
        (Symbol("Sqrt", F32), [Bound(0.5, 1, 0.5)]),
        (Symbol("Exp", F32), [Bound(0, 81)]),
        (Symbol("Exp", F32), [Bound(0, 79, 2)]),
        (Symbol("Cast", F32, (ir.DataType.INT32,)), [Bound(0, 1)]),
        (Symbol("Cast", ir.DataType.INT32, (F32,)), [Bound(0, 1)]),
        (Symbol("Floor", F32), [Bound(0, 1)]),
        (Symbol("Add", ir.DataType.FLOAT8E4M3FN), [Bound(0, 1), Bound(0, 1)]),
        (Symbol("ReduceSum", BF16), [Bound(0, 1)] * 300),
        (Symbol("Mul", F32), [Bound(0, 1e300), Bound(0, 1e300)]),
        (Symbol("BatchNormalization", F32, (), (0.0,)), [Bound(0, 1)] * 5),
    ],
    ids=lambda each: each.name if isinstance(each, Symbol) else "",
)
def test_what_has_no_bound_is_refused(symbol: Symbol, operands: list[Bound]):
    with pytest.raises(NoBoundError):
        of_symbol(symbol, operands)


def test_numbers_too_small_for_a_type_are_bounded_too():
    for dtype, least in ((F32, 2.0**-150), (F64, 2.0**-1075)):
        found = of_symbol(Symbol("Mul", dtype), [Bound(2.0**-100, 2.0**-100), Bound(2.0**-100, 2.0**-100)])
        assert found.error >= least
    assert unit(F16) == 2.0**-11
    assert unit(BF16) == 2.0**-8


def test_constants_that_are_no_numbers_have_no_bound():
    terms = Terms()
    x = terms.intern(Symbol(VARIABLE, F32, (), ("x", 0)), ())
    for number in (np.inf, -np.inf, np.nan):
        term = terms.intern(Symbol("Add", F32, (F32, F32)), (x, terms.number(F32, np.float32(number))))
        with pytest.raises(NoBoundError):
            bounds(terms, (term,), {x: (0.0, 1.0)})


# --- terms that are nearly the same -----------------------------------------------------------------------------------


class Written:
    """Terms of a few variables, as they are written."""

    def __init__(self, dtype: ir.DataType = F32) -> None:
        self.terms, self.dtype = Terms(), dtype

    def x(self, name: str) -> int:
        return self.terms.intern(Symbol(VARIABLE, self.dtype, (), (name, 0)), ())

    def c(self, number: float) -> int:
        return self.terms.number(self.dtype, np.asarray(number, self.dtype.numpy()))

    def of(self, name: str, *args: int, params: tuple[object, ...] = ()) -> int:
        return self.terms.intern(Symbol(name, self.dtype, (self.dtype,) * len(args), params), args)

    def deviation(self, a: int, b: int, **box: tuple[float, float]) -> float:
        ranges = {self.x(name): ends for name, ends in box.items()}
        found = bounds(self.terms, (a, b), ranges)
        return Expansion(self.terms, found, unit(self.dtype)).deviation(a, b)


UP = 1 + 2.0**-23


def test_constants_that_differ_by_their_last_place_are_near():
    w = Written()
    for low, high in ((-1.0, 1.0), (0.0, 8.0), (-16.0, 2.0)):
        size = max(abs(low), abs(high))
        a, b = w.of("Mul", w.x("x"), w.c(1.5)), w.of("Mul", w.x("x"), w.c(1.5 * UP))
        apart = 1.5 * float(np.float32(1.5 * UP) - np.float32(1.5)) / 1.5 * size
        assert apart <= w.deviation(a, b, x=(low, high)) <= apart * 1.01
        a, b = w.of("Add", w.x("x"), w.c(3.0)), w.of("Add", w.x("x"), w.c(3.0 * UP))
        apart = float(np.float32(3.0 * UP) - np.float32(3.0))
        assert apart <= w.deviation(a, b, x=(low, high)) <= apart * 1.01


@pytest.mark.parametrize("off", [1.001, 0.999, -1.0, 2.0, 0.0, 1 + 2.0**-17])
def test_constants_that_differ_by_more_are_not(off: float):
    w = Written()
    for other in (w.of("Mul", w.x("x"), w.c(1.5 * off)), w.of("Mul", w.x("y"), w.c(1.5))):
        with pytest.raises(NoBoundError):
            w.deviation(w.of("Mul", w.x("x"), w.c(1.5)), other, x=(-1, 1), y=(-1, 1))


def test_a_large_term_hides_no_other():
    w = Written()
    large = w.of("Mul", w.x("y"), w.c(1e6))
    one, other = (w.of("Add", large, w.of("Mul", w.x("x"), w.c(factor))) for factor in (1.5, 1.5015))
    with pytest.raises(NoBoundError):
        w.deviation(one, other, x=(-1, 1), y=(-1, 1))


def test_functions_of_what_is_nearly_the_same_are_nearly_the_same():
    w = Written()
    a, b = w.of("Mul", w.x("x"), w.c(1.5)), w.of("Mul", w.x("x"), w.c(1.5 * UP))
    apart = float(np.float32(1.5 * UP) - np.float32(1.5)) * 2
    for name, slope in (("Tanh", 1.0), ("Sigmoid", 0.25), ("Relu", 1.0), ("Abs", 1.0)):
        found = w.deviation(w.of(name, a), w.of(name, b), x=(-2, 2))
        assert apart * slope * 0.99 <= found <= apart * slope * 1.2, name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            lambda w, x, y: w.of("Mul", w.of("Add", x, y), w.c(2)),
            lambda w, x, y: w.of("Add", w.of("Mul", x, w.c(2)), w.of("Mul", y, w.c(2))),
        ),
        (lambda w, x, y: w.of("Div", x, w.c(4)), lambda w, x, y: w.of("Mul", x, w.c(0.25))),
        (lambda w, x, y: w.of("Neg", w.of("Add", x, w.of("Neg", y))), lambda w, x, y: w.of("Add", y, w.of("Neg", x))),
        (lambda w, x, y: w.of("ReduceMean", x, y), lambda w, x, y: w.of("Mul", w.of("ReduceSum", x, y), w.c(0.5))),
        (
            lambda w, x, y: w.of("Gemm", w.c(3), x, y, params=(2.0, 0.5, 1)),
            lambda w, x, y: w.of("Add", w.c(1.5), w.of("Mul", w.of("Add", x, y), w.c(2))),
        ),
        (
            lambda w, x, y: w.of("BatchNormalization", x, w.c(3), w.c(1), w.c(2), w.c(3.0), params=(1.0,)),
            lambda w, x, y: w.of("Add", w.of("Mul", w.of("Add", x, w.c(-2)), w.c(1.5)), w.c(1)),
        ),
    ],
)  # fmt: skip
def test_what_is_the_same_polynomial_is_not_apart(one: Callable[..., int], other: Callable[..., int]):
    w = Written()
    x, y = w.x("x"), w.x("y")
    assert w.deviation(one(w, x, y), other(w, x, y), x=(-2, 2), y=(-3, 3)) <= 1e-12


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda w, x, y: w.of("Div", x, y), lambda w, x, y: w.of("Mul", x, y)),
        (lambda w, x, y: w.of("Neg", x), lambda w, x, y: x),
        (lambda w, x, y: w.of("ReduceMean", x, y), lambda w, x, y: w.of("ReduceSum", x, y)),
        (lambda w, x, y: w.of("Mul", x, x), lambda w, x, y: w.of("Mul", x, y)),
        (
            lambda w, x, y: w.of("Gemm", w.c(3), x, y, params=(2.0, 0.5, 1)),
            lambda w, x, y: w.of("Gemm", w.c(3), x, y, params=(0.5, 2.0, 1)),
        ),
        (lambda w, x, y: w.of("Tanh", x), lambda w, x, y: w.of("Sigmoid", x)),
        (lambda w, x, y: w.of("Tanh", x), lambda w, x, y: w.of("Tanh", y)),
    ],
)
def test_what_is_another_function_has_no_bound(one: Callable[..., int], other: Callable[..., int]):
    w = Written()
    x, y = w.x("x"), w.x("y")
    with pytest.raises(NoBoundError):
        w.deviation(one(w, x, y), other(w, x, y), x=(1, 2), y=(1, 3))


def _rounded(build: Callable[[Written], tuple[int, int]], *, exactly: bool = True, **domains: Domain):
    w = Written()
    a, b = build(w)
    return rounding(w.terms, [(a, b)], domains, exactly=exactly, seconds=10)


def test_cancellation_is_no_rounding():
    def build(w: Written) -> tuple[int, int]:
        far = w.of("Add", w.of("Add", w.x("x"), w.c(1e8)), w.c(-1e8))
        return far, w.of("Mul", w.x("x"), w.c(1))

    found, reason = _rounded(build)
    assert found is None
    assert "may be off" in reason


def test_the_bound_is_that_of_both_sides_for_the_inputs_that_may_come():
    def build(w: Written) -> tuple[int, int]:
        return w.of("Mul", w.of("Add", w.x("x"), w.x("y")), w.c(3)), w.of("Mul", w.x("x"), w.c(3))

    def error(size: float) -> float:
        u = 2.0**-24
        return u * (2 * size * 3 + (2 * size * (1 + u)) * 3) + u * size * 3

    for size in (1.0, 4.0, 1024.0):
        domains = {} if size == 1 else {name: Domain(-size, size) for name in ("x", "y")}
        found, _ = _rounded(build, **domains)
        assert found is not None
        assert error(size) * 0.99 <= found <= error(size) * 1.01


def test_every_pair_is_looked_at():
    w = Written()
    x = w.x("x")
    near, far = w.of("Mul", x, w.c(3)), w.of("Add", w.of("Add", x, w.c(1e8)), w.c(-1e8))
    pairs = [(near, near), (far, near)]
    for order in (pairs, pairs[::-1]):
        assert rounding(w.terms, order, {}, exactly=True, seconds=10)[0] is None
    large = w.of("Mul", x, w.c(1000))
    both = [rounding(w.terms, each, {}, exactly=True, seconds=10)[0] for each in ([(near, near)], [(large, large)])]
    for order in ([(near, near), (large, large)], [(large, large), (near, near)]):
        assert rounding(w.terms, order, {}, exactly=True, seconds=10)[0] == max(each or 0 for each in both)
    assert rounding(w.terms, pairs, {}, exactly=True, seconds=-1) == (None, "no bound: it takes too long")


def test_constants_are_apart_unless_they_are_known_to_be_the_same():
    def build(w: Written) -> tuple[int, int]:
        return w.of("Mul", w.x("x"), w.c(1.5)), w.of("Mul", w.x("x"), w.c(1.5 * UP))

    exact, near = (_rounded(build, exactly=exactly)[0] for exactly in (True, False))
    assert exact is not None
    assert near is not None
    assert near - exact >= float(np.float32(1.5 * UP) - np.float32(1.5)) * 0.99
