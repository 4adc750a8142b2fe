from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.lattice_laws import EliminateIdempotence
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize("op_type", ["Abs", "Sign", "Ceil", "Floor", "Round", "Relu"])
def test_applies_once(op_type: str):
    text = f"g (float[12] x) => (float[12] y) {{a = {op_type} (x) b = {op_type} (a) y = {op_type} (b)}}"
    assert body(rewritten(EliminateIdempotence(), text)) == f"y = {op_type}(x)"


@pytest.mark.parametrize(
    ("op_type", "kind"),
    [
        ("And", "bool"),
        ("Or", "bool"),
        ("BitwiseAnd", "int8"),
        ("BitwiseOr", "uint8"),
        ("Max", "float"),
        ("Min", "int32"),
    ],
)
def test_same_operands_are_the_result(op_type: str, kind: str):
    text = f"g ({kind}[12] x) => ({kind}[12] y) {{a = {op_type} (x, x) y = Identity (a)}}"
    assert body(rewritten(EliminateIdempotence(), text)) == "y = Identity(x)"


@pytest.mark.parametrize("order", ["a, y", "y, a"])
@pytest.mark.parametrize(
    ("op_type", "kind"),
    [
        ("And", "bool"),
        ("Or", "bool"),
        ("BitwiseAnd", "int8"),
        ("BitwiseOr", "uint8"),
        ("Max", "int32"),
        ("Min", "int64"),
    ],
)
def test_same_operand_again_has_no_effect(op_type: str, kind: str, order: str):
    text = f"""g ({kind}[3,1] x, {kind}[4] y) => ({kind}[3,4] z) {{
        a = {op_type} (x, y) b = {op_type} ({order}) z = Identity (b)
    }}"""
    assert body(rewritten(EliminateIdempotence(), text)) == f"a = {op_type}(x, y); z = Identity(a)"


def test_first_application_stays_for_others():
    text = "g (float[12] x) => (float[12] a, float[12] y) {a = Relu (x) b = Relu (a) y = Neg (b)}"
    assert body(rewritten(EliminateIdempotence(), text)) == "a = Relu(x); y = Neg(a)"


def test_keeps_maximum_of_floats_with_the_same_again():
    text = "g (float[2] x, float[2] y) => (float[2] z) {a = Max (x, y) z = Max (y, a)}"
    assert "the sign of a zero depends on the order" in refusals(EliminateIdempotence(), text)


def test_keeps_operators_with_other_results():
    text = "g (float[2] x) => (float[2] z) {a = Neg (x) b = Add (a, a) z = Exp (b)}"
    assert not refusals(EliminateIdempotence(), text)
