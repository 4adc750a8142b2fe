"""Scalar functions compute what ONNX Runtime computes, bit by bit, where they say that every runtime does."""

from __future__ import annotations

import itertools

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.numbers.arithmetic import RealsArithmetic
from onnx_passes.numbers.reals import Reals
from onnx_passes.ops.number_systems import scalars
from onnx_passes.ops.number_systems.values import same
from onnx_passes.verify.run.execute import Executor

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.75, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-40]
INTEGERS = {"int8": ir.DataType.INT8, "int32": ir.DataType.INT32, "uint8": ir.DataType.UINT8}
SETTLED = ("Neg", "Abs", "Floor", "Ceil", "Round", "Sqrt", "Relu", "Sign")
APPROXIMATED = ("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Sin", "Cos", "Softplus", "Atan", "Asinh")


def runtime(operator: str, kind: str, *operands: np.ndarray, attributes: str = "") -> np.ndarray:
    names = "abc"[: len(operands)]
    inputs = ", ".join(f"{kind}[N] {name}" for name in names)
    text = f'<ir_version: 10, opset_import: ["": 20]> g ({inputs}) => ({kind}[N] y)'
    model = ir.from_onnx_text(f"{text} {{ y = {operator} {attributes} ({', '.join(names)}) }}")
    return Executor().prepare(model, engine="onnxruntime").run(dict(zip(names, operands, strict=True)))["y"]


def pairs(numbers: list[float], kind: type[np.generic] | np.dtype) -> list[np.ndarray]:
    return [np.array(each).astype(kind) for each in zip(*itertools.product(numbers, numbers), strict=True)]


@pytest.mark.parametrize("operator", ["Max", "Min", "Add", "Sub", "Mul", "Div"])
def test_functions_of_two_floats_are_those_of_the_runtime(operator: str):
    symbol, operands = Symbol(operator, ir.DataType.FLOAT, (ir.DataType.FLOAT,) * 2), pairs(SPECIAL, np.float32)
    left_open = np.broadcast_to(scalars.undefined(symbol, operands), operands[0].shape)
    alike = same(scalars.compute(symbol, operands), runtime(operator, "float", *operands))
    assert (alike | left_open).all()
    assert left_open.mean() < 0.1


@pytest.mark.parametrize("operator", SETTLED)
def test_functions_of_a_float_are_those_of_the_runtime(operator: str):
    symbol, x = Symbol(operator, ir.DataType.FLOAT, (ir.DataType.FLOAT,)), np.array(SPECIAL, np.float32)
    assert scalars.is_settled(symbol)
    left_open = np.broadcast_to(scalars.undefined(symbol, [x]), x.shape)
    assert (same(scalars.compute(symbol, [x]), runtime(operator, "float", x)) | left_open).all()


@pytest.mark.parametrize("operator", APPROXIMATED)
def test_what_engines_approximate_is_not_settled(operator: str):
    """Whether or not the last bits are the same on this machine."""
    assert not scalars.is_settled(Symbol(operator, ir.DataType.FLOAT, (ir.DataType.FLOAT,)))
    x = np.linspace(0.1, 3, 5000, dtype=np.float32)
    found = scalars.compute(Symbol(operator, ir.DataType.FLOAT, (ir.DataType.FLOAT,)), [x])
    np.testing.assert_allclose(found, runtime(operator, "float", x), rtol=1e-5)


OF_INTEGERS = [(kind, *each) for kind in INTEGERS for each in (("Div", ()), ("Mod", (0,)), ("Mod", (1,)))]


@pytest.mark.parametrize(("kind", "operator", "params"), [*OF_INTEGERS, ("int32", "Max", ()), ("int32", "Add", ())])
def test_functions_of_integers_are_those_of_the_runtime(kind: str, operator: str, params: tuple[int, ...]):
    dtype = INTEGERS[kind]
    numbers = [n for n in (0, 1, 2, 3, 7, 100, -1, -2, -3, -7, -100) if dtype.min <= n]
    if operator in ("Div", "Mod"):
        first, second = pairs(numbers, dtype.numpy())
        operands = [array[second != 0] for array in (first, second)]
    else:
        operands = pairs(numbers, dtype.numpy())
    symbol = Symbol(operator, dtype, (dtype,) * 2, params)
    attributes = f"<fmod = {params[0]}>" if params else ""
    np.testing.assert_array_equal(
        scalars.compute(symbol, operands), runtime(operator, kind, *operands, attributes=attributes)
    )


@pytest.mark.parametrize("turned", [False, True])
def test_the_lesser_of_numbers_that_doubles_take_for_one(turned: bool):
    """Half a third of a third and the like are known with an error, and are told apart without."""
    one, three = Reals.of(np.array([1.0])), Reals.of(np.array([3.0]))
    third, tiny = one / three, Reals.of(np.array([2.0**-80]))
    pair = (third, third + tiny) if turned else (third + tiny, third)
    assert (pair[0].near == pair[1].near).all()
    arithmetic = RealsArithmetic()
    assert arithmetic.lesser(*pair).equals(third)
    assert arithmetic.greater(*pair).equals(third + tiny)
