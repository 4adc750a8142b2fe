"""Every lemma of the normal forms, proved by a solver: what is written equals what it becomes, for all values.

Each case writes a term as it is, without lemmas, and once more through them; where that changes nothing the case would
prove nothing, and fails.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems import smt
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms

z3 = pytest.importorskip("z3")

I8, U8, I16, I32 = ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.INT32
F16, F32, F64, BF16 = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BFLOAT16
BOOL = ir.DataType.BOOL
INTEGERS, FLOATS = (I8, U8, I32), (F16, F32)
_COMPARE = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "IsNaN"}


class _Raw(Terms):
    """Terms as they are written."""

    def make(self, symbol: Symbol, args: tuple[int, ...]) -> int:
        return self.intern(symbol, args)


def _written(terms: Terms, expression: object, dtype: ir.DataType) -> int:
    """Make a term of nested tuples: a name is a variable, a number a constant, a tuple an application."""
    if isinstance(expression, str):
        kind = BOOL if expression in "pq" else dtype
        return terms.intern(Symbol(VARIABLE, kind, (), (expression, 0)), ())
    if not isinstance(expression, tuple):
        return terms.number(dtype, np.asarray(expression).astype(dtype.numpy()))
    name, *operands = expression
    if name == "Cast":
        inner, source, target = operands
        return terms.make(Symbol("Cast", target, (source,)), (_written(terms, inner, source),))
    args = tuple(_written(terms, operand, dtype) for operand in operands)
    sources = tuple(terms.symbols[arg].dtype for arg in args)
    result = BOOL if name in _COMPARE else sources[-1]
    params = ("LEFT",) if name == "BitShift" else (0,) if name == "Mod" else ()
    return terms.make(Symbol(name, result, sources, params), args)


def _is_proved(expression: object, dtype: ir.DataType) -> bool:
    raw, terms = _Raw(), Terms()
    a, b = _written(raw, expression, dtype), _written(terms, expression, dtype)
    assert _told(raw, a) != _told(terms, b), "no lemma applies"
    first, second = (smt.Translation(table, _variables(table)) for table in (raw, terms))
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    names = {str(raw.symbols[v].params): first.of(v) for v in _variables(raw)}
    for variable in _variables(terms):
        solver.add(second.of(variable) == names[str(terms.symbols[variable].params)])
    left, right = first.of(a), second.of(b)
    solver.add(left != right)
    return str(solver.check()) == "unsat"


def _variables(terms: Terms) -> dict[int, ir.DataType]:
    return {i: symbol.dtype for i, symbol in enumerate(terms.symbols) if symbol.name == VARIABLE}


def _told(terms: Terms, term: int) -> str:
    symbol = terms.symbols[term]
    return f"{symbol.name}{symbol.params}({', '.join(_told(terms, arg) for arg in terms.args[term])})"


RING = (
    ("Sub", "x", "y"),
    ("Neg", ("Neg", "x")),
    ("Mul", ("Add", "x", "y"), "z"),
    ("Mul", ("Sub", "x", "y"), ("Add", "x", "y")),
    ("Add", ("Mul", "x", 3), ("Mul", 5, "x")),
    ("Sub", "x", "x"),
    ("Max", ("Max", "x", "y"), "x"),
    ("Min", "y", ("Min", "x", "y")),
    ("BitwiseNot", ("BitwiseNot", "x")),
    ("BitwiseNot", "x"),
    ("BitwiseOr", "x", "y"),
    ("BitwiseAnd", ("BitwiseAnd", "x", "y"), "x"),
    ("BitwiseAnd", "x", ("BitwiseNot", "x")),
    ("BitwiseXor", "x", "x"),
    ("LessOrEqual", "x", "y"),
    ("GreaterOrEqual", "x", "y"),
    ("Greater", "x", "y"),
    ("Less", "x", "x"),
    ("Equal", ("Add", "x", "z"), ("Add", "y", "z")),
    ("Equal", "y", "x"),
    ("Div", "x", 1),
    ("Abs", ("Sub", "y", "x")),
)
REALS = (
    ("Sub", "x", "y"),
    ("Neg", ("Neg", "x")),
    ("Add", "x", -0.0),
    ("Mul", ("Neg", "x"), "y"),
    ("Mul", ("Neg", "x"), ("Neg", "y")),
    ("Mul", "x", -2.0),
    ("Mul", "x", 1.0),
    ("Div", "x", 1.0),
    ("Div", ("Neg", "x"), "y"),
    ("Abs", ("Neg", "x")),
    ("Abs", ("Abs", "x")),
    ("Relu", ("Relu", "x")),
    ("Floor", ("Ceil", "x")),
    ("Round", ("Floor", "x")),
    ("Ceil", ("Round", "x")),
    ("Sign", ("Sign", "x")),
    ("Round", ("Sign", "x")),
    ("Max", "x", "x"),
    ("Greater", "x", "y"),
    ("GreaterOrEqual", "x", "y"),
    ("Less", "x", "x"),
    ("LessOrEqual", "x", "x"),
    ("Equal", "x", "x"),
)
TRUTH = (
    ("Or", "p", "q"),
    ("Not", ("Not", "p")),
    ("And", ("And", "p", "q"), "p"),
    ("And", "p", ("Not", "p")),
    ("Xor", ("Not", "p"), "q"),
    ("Xor", ("Xor", "p", "q"), "q"),
    ("Where", ("Not", "p"), "x", "y"),
    ("Where", "p", "x", "x"),
    ("Equal", "p", "q"),
)
CASTS = (
    (("Cast", ("Cast", "x", I8, I32), I32, I8), I8),
    (("Cast", ("Cast", "x", I8, I32), I32, I16), I8),
    (("Cast", ("Cast", "x", U8, I32), I32, I8), U8),
    (("Cast", ("Cast", "x", I8, F32), F32, I8), I8),
    (("Cast", ("Cast", "x", F16, F32), F32, F16), F16),
    (("Cast", ("Cast", "x", BF16, F32), F32, BF16), BF16),
    (("Cast", ("Cast", "x", F16, F32), F32, BF16), F16),
    (("Cast", ("Cast", "x", I8, I32), I32, F16), I8),
)


@pytest.mark.parametrize("expression", RING, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_lemmas_of_integers(expression: object, dtype: ir.DataType):
    if dtype is U8 and expression[0] in ("Neg", "Abs"):
        pytest.skip("unsigned")
    assert _is_proved(expression, dtype)


@pytest.mark.parametrize("expression", REALS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lemmas_of_floats(expression: object, dtype: ir.DataType):
    if dtype is F32 and expression[0] == "Div":
        dtype = BF16  # division takes the solver seconds in single precision
    assert _is_proved(expression, dtype)


@pytest.mark.parametrize("power", [-3, 5])
def test_division_by_powers_of_two(power: int):
    assert _is_proved(("Div", "x", 2.0**power), F16)


@pytest.mark.parametrize("expression", TRUTH, ids=str)
def test_lemmas_of_truth_values(expression: object):
    assert _is_proved(expression, F16)


@pytest.mark.parametrize(("expression", "dtype"), CASTS, ids=str)
def test_lemmas_of_casts(expression: object, dtype: ir.DataType):
    assert _is_proved(expression, dtype)


def test_shifts_are_products():
    assert _is_proved(("BitShift", "x", 3), U8)
    assert _is_proved(("BitShift", "x", 9), U8)
