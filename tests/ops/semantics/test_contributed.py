"""Operators of ONNX Runtime: equal in real numbers to what they are made of, and to what it computes."""

from __future__ import annotations

import pytest

from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.proofs.runs import differ, drawn
from tests.proofs.models import pair

X = "float[2,4] x, float[2,4] k, float[4] g, float[4] b => float[2,4] r"
HALF = "h = Constant <value_float = 0.5> () "
CASES = (
    ("r = com.microsoft.Gelu(x)", "r = Gelu(x)"),
    ("r = com.microsoft.BiasGelu(x, b)", "s = Add(x, b) r = Gelu(s)"),
    ("r = com.microsoft.FastGelu(x)", 'r = Gelu <approximate = "tanh"> (x)'),
    (
        "r = com.microsoft.QuickGelu <alpha = 1.702> (x)",
        "a = Constant <value_float = 1.702> () s = Mul(a, x) t = Sigmoid(s) r = Mul(t, x)",
    ),
    (
        "r = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, k, g, b)",
        "s = Add(k, x) r = LayerNormalization <epsilon = 0.00001> (s, g, b)",
    ),
    (
        "r = com.microsoft.FusedMatMul <transB = 1, alpha = 0.5> (x, w)",
        HALF + "t = Transpose(w) m = MatMul(x, t) r = Mul(m, h)",
    ),
)


@pytest.mark.parametrize(("before", "after"), CASES, ids=[before.split("(")[0] for before, _ in CASES])
def test_contributed_operators_are_functions_of_standard_ones(before: str, after: str):
    interface = "float[2,4] x, float[4,4] w => float[2,4] r" if "w" in after.split() or "(w)" in after else X
    models = pair(interface, before, after)
    assert differ(*models, range(len(models[0].graph.inputs)), next(drawn(models[0]))) is False
    found = prove_equal(*models)
    assert isinstance(found, Proof), found
    assert found.level == "equal-in-reals"


def test_another_function_is_not_proved():
    assert isinstance(prove_equal(*pair(X, "r = com.microsoft.BiasGelu(x, b)", "s = Add(x, g) r = Gelu(s)")), Unproved)
