from __future__ import annotations

import pytest

from onnx_passes.passes.eliminate.lattice_laws import EliminateAbsorption
from tests.passes.eliminate.tools import body, refusals, rewritten


@pytest.mark.parametrize(
    ("outer", "inner", "kind"),
    [
        ("And", "Or", "bool"),
        ("Or", "And", "bool"),
        ("BitwiseOr", "BitwiseAnd", "int8"),
        ("BitwiseAnd", "BitwiseOr", "uint8"),
        ("Min", "Max", "int32"),
        ("Max", "Min", "int64"),
    ],
)
@pytest.mark.parametrize("order", ["x, a", "a, x"])
def test_absorbs_the_other_operand(outer: str, inner: str, kind: str, order: str):
    text = f"""g ({kind}[3,4] x, {kind}[4] y) => ({kind}[3,4] z) {{
        a = {inner} (y, x) b = {outer} ({order}) z = Identity (b)
    }}"""
    assert body(rewritten(EliminateAbsorption(), text)) == "z = Identity(x)"


@pytest.mark.parametrize(("x", "y"), [("", "[2,2]"), ("[2]", "[1,2]"), ("[1,2]", "[3,1]"), ("[N]", "[M]")])
def test_keeps_what_is_widened(x: str, y: str):
    text = f"g (int32{x} x, int32{y} y) => (int32 z) {{a = Max (x, y) z = Min (x, a)}}"
    text = text.replace("(int32 z)", "(int32[A,B] z)" if "," in y else "(int32[A] z)")
    assert "the result may be wider" in refusals(EliminateAbsorption(), text)


def test_keeps_floats_where_nan_prevails():
    text = "g (float[2] x, float[2] y) => (float[2] z) {a = Max (x, y) z = Min (x, a)}"
    assert "a NaN would be lost" in refusals(EliminateAbsorption(), text)
