from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass, Transformation, apply, passes
from onnx_passes.core.errors import UsageError
from onnx_passes.verify.comparison.levels import LADDER, parse_level
from onnx_passes.verify.failure import VerificationError
from onnx_passes.verify.verification import Verification

HEAD = '<ir_version: 10, opset_import: ["": 20, "mystery": 1]>'
PLAIN = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = Neg(x) unused = Abs(a) b = Neg(a) y = Relu(b) }}"
MYSTERY = f"{HEAD} g (float[3] x) => (float[3] y) {{ a = mystery.Op(x) unused = Abs(a) y = Relu(a) }}"


@passes.verify.tolerance
class Rescale(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def check(self, op, x):
        return x.producer().op_type != "Mul"

    def rewrite(self, op, x):
        return op.Relu(op.Mul(x, np.float32(1.000001)))


class Swap(Transformation):
    """Change the last node without an editor: nobody can prove anything of it."""

    def call(self, model: ir.Model) -> PassResult:
        last = model.graph[-1]
        model.graph.append(node := ir.node("Max", [last.inputs[0], last.inputs[0]]))
        node.outputs[0].name = "double"
        last.replace_input_with(0, node.outputs[0])
        model.graph.sort()
        return PassResult(model, modified=True)


class Idle(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=False)


@pytest.mark.parametrize(
    ("text", "pipeline", "level"),
    [
        (PLAIN, "remove-unused-nodes", "proved-here"),
        (PLAIN, Swap(), "sampled"),
        (PLAIN, ["remove-unused-nodes", Rescale()], "tolerance"),
        (PLAIN, Idle(), "unchanged"),
        (MYSTERY, "remove-unused-nodes", "proved-here"),
        (MYSTERY, Swap(), "unverified"),
        (MYSTERY, Idle(), "unchanged"),
    ],
)
def test_run_is_as_good_as_its_weakest_step(text, pipeline, level):
    record = apply(ir.from_onnx_text(text), pipeline).record
    assert record.level == level
    assert record.to_json()["level"] == level


@pytest.mark.parametrize("required", LADDER[:-1])
def test_required_level_is_a_condition(required):
    model, pipeline = ir.from_onnx_text(PLAIN), ["remove-unused-nodes", Rescale()]
    verification = Verification(require=required)
    if required in ("tolerance", "metric"):
        assert apply(model, pipeline, verify=verification).modified
    else:
        with pytest.raises(VerificationError, match=f"weaker than '{required}'.*rescale \\(step 2: tolerance"):
            apply(model, pipeline, verify=verification)


def test_what_cannot_be_checked_never_counts_as_fine():
    with pytest.raises(VerificationError, match="unverified"):
        apply(ir.from_onnx_text(MYSTERY), Swap(), verify=Verification(require="metric"))


def test_unknown_level_is_an_error_with_the_nearest():
    with pytest.raises(UsageError, match="sampled"):
        parse_level("sample")
