from __future__ import annotations

import numpy as np
import pytest

from onnx_passes.passes.eliminate.element_laws import EliminateComplement
from tests.passes.eliminate.tools import feeds_of, refusals, rewritten
from tests.passes.tools import run


@pytest.mark.parametrize(
    ("nodes", "kind", "out", "result"),
    [
        ("y = Sub (x, x)", "int32", "int32", 0),
        ("y = Xor (x, x)", "bool", "bool", False),
        ("y = BitwiseXor (x, x)", "uint8", "uint8", 0),
        ("y = Less (x, x)", "float", "bool", False),
        ("y = Greater (x, x)", "float", "bool", False),
        ("y = Equal (x, x)", "int64", "bool", True),
        ("y = LessOrEqual (x, x)", "int8", "bool", True),
        ("y = GreaterOrEqual (x, x)", "int32", "bool", True),
        ("a = Not (x) y = And (a, x)", "bool", "bool", False),
        ("a = Not (x) y = Or (x, a)", "bool", "bool", True),
        ("a = Not (x) y = Xor (x, a)", "bool", "bool", True),
        ("a = BitwiseNot (x) y = BitwiseOr (x, a)", "uint8", "uint8", 255),
        ("a = BitwiseNot (x) y = BitwiseAnd (x, a)", "int8", "int8", 0),
        ("a = BitwiseNot (x) y = BitwiseXor (a, x)", "int8", "int8", -1),
        ("a = Neg (x) y = Add (a, x)", "int32", "int32", 0),
    ],
)
@pytest.mark.parametrize("shape", ["[N,3]", "[0,2]", ""])
def test_result_is_known(nodes: str, kind: str, out: str, result: int, shape: str):
    model = rewritten(EliminateComplement(), f"g ({kind}{shape} x) => ({out}{shape} y) {{{nodes}}}")
    assert {node.op_type for node in model.graph} <= {"Expand", "Shape"}
    assert (run(model, feeds_of(model))[0] == np.array(result)).all()


@pytest.mark.parametrize("nodes", ["y = Sub (x, x)", "a = Neg (x) y = Add (a, x)"])
def test_keeps_floats(nodes: str):
    assert "NaN and infinities would be lost" in refusals(
        EliminateComplement(), f"g (float[2] x) => (float[2] y) {{{nodes}}}"
    )


def test_keeps_equality_of_floats_with_themselves():
    text = "g (float[2] x) => (bool[2] y) {y = Equal (x, x)}"
    assert "NaN and infinities would be lost" in refusals(EliminateComplement(), text)
