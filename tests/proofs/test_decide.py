"""What is only approximated, not defined or not settled in time is not called the same, nor different."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.smt import Translation, is_available
from onnx_passes.ops.number_systems.terms import VARIABLE, Terms
from onnx_passes.proofs.decide import decide, smt_number
from onnx_passes.proofs.excuses import excuses, needed

F16, F32, F64, I8, I32 = (ir.DataType[name] for name in ("FLOAT16", "FLOAT", "DOUBLE", "INT8", "INT32"))
BOOL = ir.DataType.BOOL


def term(terms: Terms, expression: object, dtype: ir.DataType) -> int:
    """Write nested tuples as they are: a text is a variable, a number a constant, a tuple an application."""
    if isinstance(expression, str):
        return terms.intern(Symbol(VARIABLE, dtype, (), (expression, 0)), ())
    if not isinstance(expression, tuple):
        return terms.number(dtype, np.asarray(expression).astype(dtype.numpy()))
    name, *operands = expression
    args = tuple(term(terms, operand, dtype) for operand in operands)
    if name == "Where":
        condition, *values = operands
        args = (equal(terms, condition, dtype), *(term(terms, each, dtype) for each in values))
    sources = tuple(terms.symbols[arg].dtype for arg in args)
    return terms.intern(Symbol(name, dtype, sources), args)


def equal(terms: Terms, pair: object, dtype: ir.DataType) -> int:
    assert isinstance(pair, tuple)
    args = tuple(term(terms, each, dtype) for each in pair)
    return terms.intern(Symbol("Equal", BOOL, (dtype, dtype)), args)


def status(a: object, b: object, dtype: ir.DataType, *, solver: bool = False, seconds: float = 20.0) -> str:
    terms = Terms()
    first, second = term(terms, a, dtype), term(terms, b, dtype)
    assert first != second
    return decide(terms, first, second, {}, solver=solver, seconds=seconds).status


def test_all_values_of_a_short_type_are_a_proof():
    assert status(("Abs", ("Neg", "x")), ("Abs", "x"), F16) == "same"
    assert status(("Add", "x", "x"), ("Mul", "x", 2), I8) == "same"
    assert status(("Abs", "x"), ("Neg", "x"), I8) == "different"


def test_functions_that_are_approximated_are_not_proved_by_values_of_numpy():
    """Every engine has its own last bits."""
    for wrapped in (("Neg", ("Tanh", ("Neg", "x"))), ("Tanh", ("Neg", ("Neg", "x")))):
        assert status(wrapped, ("Tanh", "x"), F16) == "unknown"
        assert status(wrapped, ("Tanh", "x"), F16, solver=is_available()) == "unknown"


def test_functions_that_are_approximated_are_not_handed_to_the_solver():
    """The same operands at another place in memory may be rounded otherwise."""
    if not is_available():
        pytest.skip("there is no solver")
    for function in ("Exp", "Tanh", "Sigmoid"):
        a, b = (function, ("Add", "x", "y")), (function, ("Add", "y", "x"))
        assert status(a, b, F32, solver=True) == "unknown"


@pytest.mark.parametrize("dtype", [I8, I32], ids=str)
def test_where_one_side_is_not_defined_nothing_is_known(dtype: ir.DataType):
    """A quotient by zero is whatever the machine makes of it."""
    assert status(("Div", "x", "x"), 1, dtype, solver=is_available()) == "unknown"
    chosen = ("Where", ("y", 0), 5, ("Div", "x", "y"))
    assert status(chosen, ("Div", "x", "y"), dtype, solver=is_available()) == "unknown"


@pytest.mark.skipif(not is_available(), reason="there is no solver")
def test_a_solver_that_gives_up_has_proved_nothing():
    a, b = ("Div", ("Mul", "x", "y"), ("Add", "x", "z")), ("Div", ("Mul", "y", "x"), ("Add", "z", "x"))
    assert status(a, b, F64, solver=True, seconds=0.0) == "unknown"


@pytest.mark.skipif(not is_available(), reason="there is no solver")
def test_the_solver_decides_where_values_are_too_many():
    assert status(("Add", "x", "y"), ("Add", "y", "x"), F32, solver=True) == "same"
    assert status(("Sub", ("Add", "x", "y"), "y"), "x", I32, solver=True) == "same"
    assert status(("Where", ("x", 1234567), 0, "x"), "x", I32, solver=True) == "different"


def flags(x: float, y: float, *inputs: float) -> frozenset[str]:
    arrays = [np.array([number], np.float32) for number in (x, y, *inputs)]
    return needed(excuses(arrays[0], arrays[1], arrays[2:]))


@pytest.mark.parametrize(
    ("x", "y", "inputs", "expected"),
    [
        (np.inf, 1e38, (3.0,), "ninf"),
        (np.nan, 1.0, (3.0,), "nnan"),
        (1.0, np.nan, (np.nan,), "nnan"),
        (1.0, 2.0, (np.inf,), "ninf"),
        (0.0, -0.0, (1.0,), "nsz"),
        (0.0, 1.0, (1.0,), "reassoc"),
        (1.0, 0.0, (1.0,), "reassoc"),
        (1.0, 1.0000001, (1.0,), "reassoc"),
        (np.inf, 1.0, (1e20,), "reassoc"),
    ],
)
def test_a_difference_is_excused_by_the_flag_that_speaks_of_it_alone(x, y, inputs, expected):
    assert flags(x, y, *inputs) == {expected}


@pytest.mark.skipif(not is_available(), reason="there is no solver")
@pytest.mark.parametrize("name", ["FLOAT16", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, -2.75, np.inf, -np.inf, np.nan, 6e-8])
def test_numbers_of_the_solver_are_read_as_they_are(name: str, number: float):
    dtype = ir.DataType[name]
    translation = Translation(Terms(), {})
    made = translation.number(dtype, np.asarray(number, dtype.numpy()))
    found = np.asarray(smt_number(translation.z3.simplify(made), translation, dtype)).astype(dtype.numpy())
    expected = np.asarray(number, dtype.numpy())
    assert np.isnan(found) if np.isnan(expected) else found.tobytes() == expected.tobytes()


def test_texts_are_not_decided():
    terms = Terms()
    text = terms.intern(Symbol(VARIABLE, ir.DataType.STRING, (), ("s", 0)), ())
    number = terms.intern(Symbol(VARIABLE, F32, (), ("x", 0)), ())
    one = terms.intern(Symbol("Equal", BOOL, (ir.DataType.STRING,) * 2), (text, text))
    other = terms.intern(Symbol("IsNaN", BOOL, (F32,)), (number,))
    found = decide(terms, one, other, {}, solver=False, seconds=1.0)
    assert (found.status, found.method) == ("unknown", "texts")


def test_numbers_that_were_tried_are_a_proof_only_if_these_are_all():
    terms = Terms()
    for dtype, status, method in ((F16, "same", "exhaustive"), (F32, "unknown", "no difference found")):
        one, other = term(terms, ("Abs", ("Neg", "x")), dtype), term(terms, ("Abs", "x"), dtype)
        found = decide(terms, one, other, {}, solver=False, seconds=1.0)
        assert (found.status, found.method) == (status, method)
