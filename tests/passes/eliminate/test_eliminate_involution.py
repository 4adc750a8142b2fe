from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.lattice_laws import EliminateInvolution
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    ("op_type", "kind"), [("Neg", "float"), ("Neg", "int8"), ("Not", "bool"), ("BitwiseNot", "uint8")]
)
def test_two_in_a_row_cancel(op_type: str, kind: str):
    text = f"g ({kind}[12] x) => ({kind}[12] y) {{a = {op_type} (x) b = {op_type} (a) y = {op_type} (b)}}"
    assert body(rewritten(EliminateInvolution(), text)) == f"y = {op_type}(x)"


def test_inner_one_stays_for_others():
    text = "g (float[12] x) => (float[12] a, float[12] y) {a = Neg (x) b = Neg (a) y = Abs (b)}"
    assert body(rewritten(EliminateInvolution(), text)) == "a = Neg(x); y = Abs(x)"


def test_keeps_reciprocal_which_rounds():
    text = "g (float[2] x) => (float[2] y) {a = Reciprocal (x) y = Reciprocal (a)}"
    assert not refusals(EliminateInvolution(), text)
