from __future__ import annotations

import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.core.build import collect
from onnx_passes.core.errors import UsageError
from onnx_passes.core.plan import plan
from onnx_passes.rewrite.together import Together
from onnx_passes.verify.failure import PostconditionError

TEXT = """
<ir_version: 10, opset_import: ["": 20]>
g (float[3] x) => (float[3] y) { a = Neg(x) b = Abs(a) c = Abs(b) d = Neg(c) e = Neg(d) y = Relu(e) }
"""


@passes.verify.equality
class DropDoubleNegation(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Neg(op.Neg(x))

    def rewrite(self, op, x):
        return x


@passes.verify.equality
class DropDoubleAbs(Transformation, RewriteRulePass):
    needs = ("shape-inference",)
    wrong: bool = False

    def pattern(self, op, x):
        return op.Abs(op.Abs(x))

    def rewrite(self, op, x):
        return op.Relu(x) if self.wrong else op.Abs(x)


@passes.verify.tolerance(atol=100.0)
class Loose(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Tanh(x)

    def rewrite(self, op, x):
        return x


def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


def test_rules_of_all_members_apply_in_one_step():
    result = apply(model(), Together(body=(DropDoubleNegation(), DropDoubleAbs())))
    assert [node.op_type for node in result.model.graph] == ["Neg", "Abs", "Relu"]
    (step,) = [step for step in result.steps if step.applications]
    assert step.applications == 2
    assert step.evidence.windows == 2
    assert {rule.name: rule.applied for rule in step.rules} == {"DropDoubleNegation": 1, "DropDoubleAbs": 1}


def test_needs_of_members_are_its_own():
    names = [step.name for step in plan(Together(body=(DropDoubleNegation(), DropDoubleAbs()))).steps]
    assert names == ["shape-inference", "together"]


def test_every_rewrite_is_held_to_the_claim_of_its_pass():
    with pytest.raises(PostconditionError) as caught:
        apply(model(), Together(body=(Loose(), DropDoubleAbs(wrong=True))))
    assert "DropDoubleAbs" in caught.value.failure.application


def test_promises_no_more_than_the_weakest_member():
    assert Together(body=(DropDoubleNegation(),)).claims[0].kind == "equality"
    assert Together(body=(DropDoubleNegation(), Loose())).claims[0].kind == "tolerance"


def test_pipeline_text_names_it_with_its_members():
    pass_ = Together(body=(DropDoubleNegation(), DropDoubleAbs()))
    assert str(pass_) == "together(drop-double-negation, drop-double-abs)"


def test_passes_without_rules_are_refused():
    with pytest.raises(UsageError, match="'topological-sort' has no rules"):
        collect("together(topological-sort)")
