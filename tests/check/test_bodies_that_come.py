"""Graphs inside a model that a step brings in are looked at as those that were there."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, Transformation, apply
from onnx_passes.check.original import Original
from onnx_passes.check.settings import Settings
from onnx_passes.check.verification import Mode, Verification
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.proofs.runs import run

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
PLAIN = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Neg (x) }}"
CHOICE = f"""{HEAD} g (float[2] x) => (float[2] y) <float odd = {{1234.5}}> {{
    s = ReduceMax <keepdims = 0> (x) l = Abs (s) c = Equal (l, odd)
    y = If (c) <then_branch = t () => (float[2] p) {{ p = OPERATOR (x) }},
    else_branch = e () => (float[2] q) {{ q = Neg (x) }}>
}}"""


def choice(operator: str) -> ir.Model:
    return ir.from_onnx_text(CHOICE.replace("OPERATOR", operator))


class BringsAChoice(Transformation):
    """Choose between two branches, of which ordinary samples reach the second alone."""

    claims = (Claim("equality"),)
    operator: str = "Abs"

    def call(self, model: ir.Model) -> PassResult:
        return PassResult(choice(self.operator), modified=True)


@pytest.mark.parametrize("mode", ["each", "every", "final"])
def test_a_branch_that_comes_in_and_that_no_sample_reaches_is_not_taken_for_right(mode: Mode):
    given = np.array([1234.5, 1.0], np.float32)
    both = [run(model, {"x": given}) for model in (ir.from_onnx_text(PLAIN), choice("Abs"))]
    assert not np.array_equal((both[0] or [])[0], (both[1] or [])[0])
    try:
        found = apply(ir.from_onnx_text(PLAIN), BringsAChoice(), verify=Verification(mode=mode)).record.level
    except OnnxPassesError:
        return
    assert found == "unverified"


def test_a_baseline_looks_at_graphs_from_the_step_on_that_brings_them_in():
    original = Original(ir.from_onnx_text(PLAIN), Settings())
    baseline = original.established()
    assert baseline is not None
    assert baseline.unreached is None
    original.follow(1, ir.from_onnx_text(PLAIN.replace("Neg", "Abs")))
    assert baseline.unreached is None
    original.follow(2, choice("Neg"))
    assert original.has_bodies
    assert baseline.unreached is not None
