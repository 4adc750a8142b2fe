from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.element_laws import EliminateNeutralElement
from tests.passes.eliminate.tools import body, refusals, rewritten
from tests.passes.tools import model_of

NOT_NEUTRAL = "the constant is not the neutral element"


def _model(op_type: str, kind: str, constant: str, *, swap: bool = False, shape: str = "12", size: str = "") -> str:
    operands = "c, x" if swap else "x, c"
    return f"""g ({kind}[{shape}] x) => ({kind}[{shape}] y) <{kind}{size} c = {{{constant}}}> {{
        a = {op_type} ({operands}) y = Identity (a)
    }}"""


@pytest.mark.parametrize(
    ("op_type", "kind", "constant"),
    [
        ("Add", "float", "-0.0"),
        ("Sub", "float", "0.0"),
        ("Mul", "double", "1.0"),
        ("Div", "float", "1.0"),
        ("Pow", "float", "1.0"),
        ("Pow", "int32", "1"),
        ("Add", "int64", "0"),
        ("Div", "int32", "1"),
        ("Sum", "float", "-0.0"),
        ("And", "bool", "1"),
        ("Or", "bool", "0"),
        ("Xor", "bool", "0"),
        ("BitwiseAnd", "int32", "-1"),
        ("BitwiseAnd", "uint8", "255"),
        ("BitwiseOr", "int8", "0"),
        ("BitwiseXor", "int64", "0"),
    ],
)
def test_removes_neutral_element(op_type: str, kind: str, constant: str):
    model = rewritten(EliminateNeutralElement(), _model(op_type, kind, constant))
    assert body(model) == "y = Identity(x)"


@pytest.mark.parametrize(("op_type", "kind", "constant"), [("Add", "float", "-0.0"), ("And", "bool", "1")])
def test_removes_neutral_element_from_the_left(op_type: str, kind: str, constant: str):
    assert body(rewritten(EliminateNeutralElement(), _model(op_type, kind, constant, swap=True))) == "y = Identity(x)"


@pytest.mark.parametrize(
    ("op_type", "kind", "constant", "swap"),
    [
        ("Add", "float", "0.0", False),
        ("Sub", "float", "-0.0", False),
        ("Mul", "float", "-1.0", False),
        ("BitwiseAnd", "uint8", "127", False),
        ("BitwiseAnd", "uint8", "0", False),
        ("Mul", "int32", "0", False),
        ("Or", "bool", "1", False),
        ("And", "bool", "0", True),
        ("Xor", "bool", "1", False),
        ("Mul", "float", "nan", False),
    ],
)
def test_keeps_other_constants(op_type: str, kind: str, constant: str, swap: bool):
    assert NOT_NEUTRAL in refusals(EliminateNeutralElement(), _model(op_type, kind, constant, swap=swap))


@pytest.mark.parametrize("op_type", ["Sub", "Div", "Pow"])
def test_keeps_the_left_operand_where_order_matters(op_type: str):
    constant = "0.0" if op_type == "Sub" else "1.0"
    assert refusals(EliminateNeutralElement(), _model(op_type, "float", constant, swap=True))


def test_keeps_power_of_large_integers():
    reasons = refusals(EliminateNeutralElement(), _model("Pow", "int64", "1"))
    assert "large integers are rounded to double" in reasons


def test_removes_ones_that_fit_into_the_other_operand():
    text = _model("Mul", "float", "1.0, 1.0, 1.0", shape="N,3", size="[3]")
    assert body(rewritten(EliminateNeutralElement(), text)) == "y = Identity(x)"


@pytest.mark.parametrize(("shape", "size"), [("3", "[1,3]"), ("1", "[3]"), ("N", "[3]"), ("3", "[1,1]")])
def test_keeps_constants_that_may_widen_the_other_operand(shape: str, size: str):
    ones = ", ".join(["1.0"] * int(np.prod([int(n) for n in size.strip("[]").split(",")])))
    text = f"""g (float[{shape}] x) => (float[{"A,B" if "," in size else "A"}] y) <float{size} c = {{{ones}}}> {{
        a = Mul (x, c) y = Identity (a)
    }}"""
    assert "the constant may widen the other operand" in refusals(EliminateNeutralElement(), text)


def test_keeps_default_that_may_be_overridden():
    text = "g (float[2] x, float c = {1.0}) => (float[2] y) {y = Mul (x, c)}"
    assert "neither operand is constant" in refusals(EliminateNeutralElement(), text)


def test_keeps_the_shape_of_a_scalar_operand():
    text = "g (float x) => (float[1] y) <float[1] c = {1.0}> {y = Mul (x, c)}"
    assert "the constant may widen the other operand" in refusals(EliminateNeutralElement(), text)


def test_removes_in_a_branch_that_captures_the_constant():
    text = """g (bool b, float[2] x) => (float[2] y) <float c = {1.0}> {
        y = If (b) <
            then_branch = t () => (float[2] u) {p = Mul (x, c) u = Neg (p)},
            else_branch = e () => (float[2] v) {v = Abs (x)}
        >
    }"""
    model = rewritten(EliminateNeutralElement(), text, feeds={"b": np.array(True), "x": np.array([1, 2], np.float32)})
    then = next(graph for graph in model.graphs() if graph.name == "t")
    assert [node.op_type for node in then] == ["Neg"]


def test_shared_constant_stays_for_others():
    text = "g (float[2] x) => (float[2] y, float z) <float c = {1.0}> {a = Mul (x, c) y = Neg (a) z = Neg (c)}"
    model = rewritten(EliminateNeutralElement(), text)
    assert list(model.graph.initializers) == ["c"]
    assert list(model_of(text).graph.initializers) == ["c"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = Abs (x) y = Add (a, z)", "y = Abs(x)"),
        ("a = Add (x, b) y = Add (z, a)", "y = Add(x, b)"),
        ("a = Gemm (x, w, b) d = Relu (a) y = Sum (d, z)", "a = Gemm(x, w, b); y = Relu(a)"),
        ("a = Add (x, b) y = Sub (a, n)", "y = Add(x, b)"),
        ("a = BatchNormalization (x, b, b, b, v) y = Add (a, z)", "y = BatchNormalization(x, b, b, b, v)"),
        ("a = Add (x, z) y = Softmax (a)", "y = Softmax(x)"),
        ("a = Add (x, z) y = Exp (a)", "y = Exp(x)"),
        ("a = Add (x, z) d = Abs (x) y = Add (d, a)", "d = Abs(x); y = Add(x, d)"),
    ],
)
def test_zero_is_not_added_where_no_zero_is_negative_or_its_sign_is_not_seen(before: str, after: str):
    model = rewritten(EliminateNeutralElement(), _with_zeros(before))
    assert body(model) == after


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Relu (x) y = Add (a, z)",
        "a = MatMul (x, w) y = Add (a, z)",
        "a = Gemm (x, w, h) y = Add (a, z)",
        "a = Sub (b, x) d = Neg (a) y = Add (d, z)",
        "a = BatchNormalization (x, b, h, h, v) y = Add (a, z)",
        "a = Add (x, z) e = Tanh (a) y = Neg (e)",
        "a = Add (x, z) d = Neg (x) y = Add (a, d)",
    ],
)
def test_zero_is_added_where_a_zero_may_be_negative(nodes: str):
    found = refusals(EliminateNeutralElement(), _with_zeros(nodes))
    assert NOT_NEUTRAL in found


def _with_zeros(nodes: str) -> str:
    """Write a graph with a positive and a negative zero, and matrices, biases without and with a zero."""
    return f"""g (float[2,3] x) => (float[2,3] y) <float z = {{0.0}}, float n = {{-0.0}}, float[3] b = {{0.5, -1, 2}},
      float[3] h = {{0.5, 0, 2}}, float[3] v = {{1, 1, 1}}, float[3,3] w = {{1, -1, 2, 0.5, 3, 0, 0, 1, 2}}>
      {{ {nodes} }}"""
