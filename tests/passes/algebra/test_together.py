"""All laws together come to an end, on whatever they are let loose, and keep what is computed."""

from __future__ import annotations

import random

import numpy as np
import pytest

from onnx_passes.core.base import Context
from onnx_passes.passes.annotate.shape_inference import ShapeInference
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.together import Together
from tests.passes.algebra.tools import assert_same_numbers, check, feeds_of
from tests.passes.tools import model_of, run

NODES = 14
UNARY = {"int": ("Neg", "Abs", "BitwiseNot"), "float": ("Neg", "Abs", "Relu", "Floor"), "bool": ("Not",)}
BINARY = {
    "int": ("Add", "Sub", "Mul", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Max", "Min"),
    "float": ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"),
    "bool": ("And", "Or", "Xor"),
}
COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
CONSTANTS = {"int": "1 -1 0 7 -2147483648 2147483647", "float": "1 -1 0 -0.0 0.5 4 3", "bool": "0 1"}
TYPES = {"int": "int32", "float": "float", "bool": "bool"}
GROUPS = [("algebraic",), ("algebraic", "factorize"), ("algebraic", "factorize", "fast-math")]


def _random_model(seed: int, kinds: tuple[str, ...]) -> str:
    """Write a model that mixes operators of some kinds of numbers."""
    draw = random.Random(seed)
    values = {kind: [f"{kind}_x", f"{kind}_y"] for kind in kinds}
    constants: list[str] = []
    nodes: list[str] = []
    for number in range(NODES):
        kind = draw.choice(kinds)

        def operand(kind: str = kind) -> str:
            if draw.random() < 0.4:
                constants.append(f"{TYPES[kind]} c{len(constants)} = {{{draw.choice(CONSTANTS[kind].split())}}}")
                return f"c{len(constants) - 1}"
            return draw.choice(values[kind][-4:])

        choice, result = draw.random(), f"v{number}"
        if choice < 0.15 and kind != "bool" and "bool" in kinds:
            nodes.append(f"{result} = {draw.choice(COMPARISONS)} ({operand()}, {operand()})")
            values["bool"].append(result)
            continue
        if choice < 0.25 and kind != "bool" and "bool" in kinds:
            nodes.append(f"{result} = Where ({draw.choice(values['bool'])}, {operand()}, {operand()})")
        elif choice < 0.45:
            nodes.append(f"{result} = {draw.choice(UNARY[kind])} ({draw.choice(values[kind])})")
        else:
            nodes.append(f"{result} = {draw.choice(BINARY[kind])} ({operand()}, {operand()})")
        values[kind].append(result)
    inputs = ", ".join(f"{TYPES[kind]}[3,4] {kind}_{name}" for kind in kinds for name in "xy")
    for kind in kinds:
        # A result of constants alone would be a scalar.
        nodes.append(f"{kind}_z = {BINARY[kind][0]} ({kind}_x, {values[kind][-1]})")
    outputs = ", ".join(f"{TYPES[kind]}[3,4] {kind}_z" for kind in kinds)
    return f"g ({inputs}) => ({outputs}) <{', '.join(constants)}> {{{' '.join(nodes)}}}"


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("seed", range(12))
def test_laws_of_integers_end_and_are_exact(seed: int, groups: tuple[str, ...]) -> None:
    model = model_of(_random_model(seed, ("int", "bool")))
    ShapeInference().run(model, Context())
    feeds = feeds_of(model)
    expected = run(model, feeds)
    rules = Together(body=groups).rules()
    assert rewrite(model, rules) <= 10 * NODES
    assert rewrite(model, rules) == 0
    check(model)
    assert_same_numbers(run(model, feeds), expected)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("seed", range(12))
def test_laws_of_floats_end_within_rounding(seed: int, groups: tuple[str, ...]) -> None:
    model = model_of(_random_model(seed, ("float",)))
    ShapeInference().run(model, Context())
    feeds = {
        value.name or "": np.linspace(-3.3, 2.7, 12, dtype=np.float32).reshape(3, 4) for value in model.graph.inputs
    }
    expected = run(model, feeds)
    rules = Together(body=groups).rules()
    assert rewrite(model, rules) <= 10 * NODES
    assert rewrite(model, rules) == 0
    check(model)
    for result, wanted in zip(run(model, feeds), expected, strict=True):
        assert result.shape == wanted.shape
        with np.errstate(all="ignore"):
            largest = float(np.max(np.abs(wanted), where=np.isfinite(wanted), initial=1.0))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5 * largest)


def test_a_chain_of_scales_and_shifts_becomes_one_of_each() -> None:
    text = """g (int32[4] x) => (int32[4] y) <int32 a = {3}, int32 b = {5}, int32 c = {7}, int32 d = {11}>
    {p = Sub (x, a) q = Mul (b, p) r = Add (q, c) s = Mul (r, d) y = Sub (s, a)}"""
    model = model_of(text)
    ShapeInference().run(model, Context())
    feeds = {"x": np.array([1, -2, 2**31 - 1, -(2**31)], np.int32)}
    expected = run(model, feeds)
    rewrite(model, Together(body=("algebraic",)).rules())
    assert sorted(node.op_type for node in model.graph) == ["Add", "Mul"]
    assert_same_numbers(run(model, feeds), expected)
