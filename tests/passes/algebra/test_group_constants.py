"""Constants of associative operators come together, and floats only where nothing but rounding changes."""

from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.graph.traits import operators as operators_with
from onnx_passes.passes.algebra.grouping_laws import GroupConstants, GroupConstantsFast, GroupConstantsRounding
from tests.passes.algebra.tools import body, operators, refusals, rewritten


def _chain(op: str, kind: str, first: str, second: str) -> str:
    return f"""g ({kind}[2,2] x) => ({kind}[2,2] y) <{kind} c = {first}, {kind} d = {second}>
    {{a = {op} (x, c) y = {op} (a, d)}}"""


@pytest.mark.parametrize("op", operators_with("elementwise", arity=2, associative=True))
def test_groups_constants_of_every_associative_operator(op: str) -> None:
    kind = "bool" if op in ("And", "Or", "Xor") else "int32"
    model = rewritten(GroupConstants(), _chain(op, kind, "{1}", "{1}" if kind == "bool" else "{6}"))
    assert operators(model.graph) == [op]


@pytest.mark.parametrize(("kind", "first", "second", "sum_"), [("uint8", 200, 100, 44), ("int8", 100, 100, -56)])
def test_integers_wrap_around(kind: str, first: int, second: int, sum_: int) -> None:
    model = rewritten(GroupConstants(), _chain("Add", kind, f"{{{first}}}", f"{{{second}}}"))
    constant = next(v for v in model.graph.initializers.values() if v.uses())
    assert constant.const_value is not None
    assert constant.const_value.numpy() == sum_


def test_a_constant_moves_outward() -> None:
    text = "g (int32[2,2] x, int32[2,2] y) => (int32[2,2] z) <int32 c = {5}> {a = Add (x, c) z = Add (a, y)}"
    assert body(rewritten(GroupConstants(), text)).endswith("z = Add(z_Add, c)")


def test_constants_of_both_operands_meet() -> None:
    text = """g (int32[2] x, int32[2] y) => (int32[2] z) <int32 c = {5}, int32 d = {7}>
    {a = Add (c, x) b = Add (y, d) z = Add (a, b)}"""
    assert operators(rewritten(GroupConstants(), text).graph) == ["Add", "Add"]


def test_an_operand_that_widens_stays_outside() -> None:
    text = "g (int32[1] x, int32[9] y) => (int32[9] z) <int32 c = {5}> {a = Add (x, c) z = Add (a, y)}"
    assert refusals(GroupConstants(), text)["the other operand may widen the result"]


def test_constants_do_not_grow_by_broadcasting() -> None:
    text = """g (int32[2,2] x) => (int32[2,2] y) <int32[2,1] c = {1, 2}, int32[1,2] d = {3, 4}>
    {a = Mul (x, c) y = Mul (a, d)}"""
    assert refusals(GroupConstants(), text)["the constants would grow by broadcasting"]


def test_large_constants_are_not_copied() -> None:
    numbers = ", ".join(["1"] * 2000)
    text = f"""g (int32[2000] x) => (int32[2000] y, int32[2000] z) <int32[2000] c = {{{numbers}}}, int32 d = {{7}}>
    {{a = Add (x, c) y = Add (a, d) z = Mul (x, c)}}"""
    assert refusals(GroupConstants(), text)["a large constant is used elsewhere, too"]


def test_keeps_a_sum_that_others_use() -> None:
    text = "g (int32[2] x) => (int32[2] y, int32[2] a) <int32 c = {5}, int32 d = {7}> {a = Add (x, c) y = Add (a, d)}"
    assert refusals(GroupConstants(), text)["a value inside the match is a graph output"]


def test_a_default_that_callers_override_is_no_constant() -> None:
    text = "g (int32[2] x, int32 c) => (int32[2] y) <int32 c = {5}, int32 d = {7}> {a = Add (x, c) y = Add (a, d)}"
    assert refusals(GroupConstants(), text)["not one operand of the inner operator is constant"]


def test_groups_in_branches() -> None:
    text = """g (bool c, int32[2] x) => (int32[2] y) <int32 d = {7}> {
        y = If (c) <then_branch = t () => (int32[2] p) {a = Add (x, d) p = Add (a, d)},
                    else_branch = e () => (int32[2] q) {q = Mul (x, d)}>
    }"""
    model = rewritten(GroupConstants(), text, feeds={"c": np.array(True), "x": np.array([1, 2], np.int32)})
    assert [operators(graph) for graph in model.graphs()][1:] in ([["Add"], ["Mul"]], [["Mul"], ["Add"]])


def test_divisors_are_multiplied() -> None:
    feeds = {"x": np.array([[-101, 99], [2**31 - 1, -(2**31)]], np.int32)}
    model = rewritten(GroupConstants(), _chain("Div", "int32", "{7}", "{3}"), feeds=feeds)
    assert operators(model.graph) == ["Div"]


@pytest.mark.parametrize(
    ("kind", "first", "second", "reason"),
    [
        ("int32", "{-7}", "{3}", "a divisor is not positive"),
        ("int32", "{65536}", "{65536}", "the product of the divisors does not fit"),
        ("float", "{4}", "{2}", "division of floats rounds each time"),
    ],
)
def test_refuses_divisors(kind: str, first: str, second: str, reason: str) -> None:
    assert refusals(GroupConstants(), _chain("Div", kind, first, second))[reason]


def test_floats_are_left_to_the_pass_that_rounds() -> None:
    text = _chain("Add", "float", "{1}", "{2}")
    assert refusals(GroupConstants(), text)["another pass handles this type"]
    assert operators(rewritten(GroupConstantsRounding(), text, feeds={"x": np.ones((2, 2), np.float32)}).graph) == [
        "Add"
    ]


@pytest.mark.parametrize(
    ("op", "first", "second", "reason"),
    [
        ("Add", "{12582912}", "{-12582912}", "the constants cancel"),
        ("Add", "{1e8}", "{-99999999}", "the constants cancel"),
        ("Add", "{3e38}", "{-3e38}", "a constant is so large that a sum may leave the range"),
        ("Add", "{1e30}", "{2e38}", "a constant is so large that a sum may leave the range"),
        ("Mul", "{1e30}", "{1e30}", "a product overflows or loses digits"),
        ("Mul", "{1e-30}", "{1e-30}", "a product overflows or loses digits"),
        ("Mul", "{4}", "{0.5}", "an intermediate product may overflow"),
        ("Mul", "{4}", "{0}", "an intermediate product may overflow"),
    ],
)
def test_refuses_what_changes_more_than_rounding(op: str, first: str, second: str, reason: str) -> None:
    assert refusals(GroupConstantsRounding(), _chain(op, "float", first, second))[reason]


def test_refuses_to_multiply_variables_first() -> None:
    text = "g (float[2] x, float[2] y) => (float[2] z) <float c = {0.5}> {a = Mul (x, c) z = Mul (a, y)}"
    assert refusals(GroupConstantsRounding(), text)["the product of the other operands may overflow"]
    feeds = {"x": np.array([3, 5], np.float32), "y": np.array([2, -7], np.float32)}
    assert body(rewritten(GroupConstantsFast(), text, feeds=feeds)).endswith("z = Mul(z_Mul, c)")


@pytest.mark.parametrize(("first", "second"), [("{12582912}", "{-12582912}"), ("{3e38}", "{3e38}")])
def test_even_fast_math_keeps_meant_rounding_and_range(first: str, second: str) -> None:
    assert refusals(GroupConstantsFast(), _chain("Add", "float", first, second))


def test_infinite_and_nan_results_stay_what_they_are() -> None:
    assert operators(rewritten(GroupConstantsRounding(), _chain("Mul", "float", "{2}", "{4}")).graph) == ["Mul"]
    assert operators(rewritten(GroupConstantsRounding(), _chain("Mul", "float", "{0.5}", "{0.25}")).graph) == ["Mul"]
