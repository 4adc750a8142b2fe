"""Passes made of rules: alone, in a manager, with options."""

from __future__ import annotations

from typing import Any, ClassVar

import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Rule, Transformation, no, yes
from onnx_passes.core.errors import RegistrationError, RewriteError
from onnx_passes.core.manager import Manager
from onnx_passes.core.options import describe
from onnx_passes.core.plan import plan
from onnx_passes.core.registry import REGISTRY
from onnx_passes.rewrite.passes import RewriteRulePass, RewriteRuleSetPass
from tests.rewrite.support import operators, parse

TEXT = """
g (float[2] x, float[2] y) => (float[2] z) {
  a = Add(x, y)
  b = Relu(a)
  z = Neg(b)
}
"""


@pytest.fixture(autouse=True)
def unverified(monkeypatch):
    """Let passes do what they should not: what they do is tested here, not whether it is right."""
    monkeypatch.setattr(REGISTRY, "watchers", [])


class BreakAdds(Transformation, RewriteRulePass):
    def pattern(self, op: Any, x: Any, y: Any) -> Any:
        return op.Add(x, y)

    def check(self, op: Any, x: Any, y: Any) -> Any:
        return x != y

    def rewrite(self, op: Any, x: Any, y: Any) -> Any:
        return op.Add(x, x)


class NoCheck(Transformation, RewriteRulePass):
    def pattern(self, op: Any, x: Any) -> Any:
        return op.Relu(x)

    def rewrite(self, op: Any, x: Any) -> Any:
        return op.Abs(x)


class Bounded(Transformation, RewriteRulePass):
    """Replace an operator by another one, both options."""

    built: ClassVar[list[str]] = []

    source: str = "Relu"
    target: str = "Abs"

    def pattern(self, op: Any, x: Any) -> Any:
        self.built.append(self.source)
        return getattr(op, self.source)(x)

    def check(self, op: Any, x: ir.Value) -> Any:
        return yes if x.name != "x" else no("not the input", at=x)

    def rewrite(self, op: Any, x: Any) -> Any:
        return getattr(op, self.target)(x)


class Several(Transformation, RewriteRuleSetPass):
    def rules(self) -> list[Rule]:
        return [
            Rule(lambda op, x: op.Relu(x), lambda op, x: op.Abs(x), name="relu"),
            Rule(lambda op, x: op.Neg(x), lambda op, x: op.Exp(x), name="neg"),
        ]


def test_a_pass_called_alone_rewrites_in_place() -> None:
    model = parse(TEXT)
    result = BreakAdds()(model)
    assert result.model is model
    assert result.modified
    [add] = [node for node in model.graph if node.op_type == "Add"]
    assert add.inputs[0] is add.inputs[1]
    assert not BreakAdds()(model).modified


def test_the_check_is_optional() -> None:
    model = parse(TEXT)
    assert NoCheck()(model).modified
    assert operators(model) == ["Add", "Abs", "Neg"]


def test_in_a_manager_rules_are_recorded() -> None:
    outcome = Manager().run(plan([BreakAdds()]), parse(TEXT))
    [step] = outcome.record.steps
    assert (step.modified, step.applications) == (True, 1)
    [record] = step.rules
    assert record.name == "BreakAdds"
    assert record.applied == 1
    assert "test_passes.py:" in record.source


def test_several_rules_in_one_pass() -> None:
    outcome = Manager().run(plan([Several()]), parse(TEXT))
    assert operators(outcome.model) == ["Add", "Abs", "Exp"]
    assert [record.name for record in outcome.record.steps[0].rules] == ["relu", "neg"]


def test_rules_are_compiled_once_until_an_option_changes() -> None:
    Bounded.built.clear()
    bounded = Bounded()
    for _ in range(3):
        assert bounded(parse(TEXT)).modified
    assert Bounded.built == ["Relu"]
    bounded.source = "Neg"
    model = parse(TEXT)
    assert bounded(model).modified
    assert operators(model) == ["Add", "Relu", "Abs"]


def test_what_is_compiled_is_no_option() -> None:
    assert [option.name for option in describe(Several)] == []
    assert "compiled" not in str(Bounded(source="Neg"))


def test_class_declarations_reach_the_rule() -> None:
    class Special(Transformation, RewriteRulePass):
        commute = False
        forks = "cheap"

        def pattern(self, op: Any, x: Any, y: Any) -> Any:
            return op.Add(op.Relu(x), y)

        def rewrite(self, op: Any, x: Any, y: Any) -> Any:
            return op.Sum(x, y)

    [rule] = Special().rules()
    assert (rule.commute, rule.forks, rule.name) == (False, "cheap", "Special")


def test_functions_are_rewritten_if_the_pass_says_so() -> None:
    class InFunctions(NoCheck):
        functions = True

    text = """
    g (float[2] x) => (float[2] y) { y = local.f(x) }
    <domain: "local", opset_import: ["": 20]>
    f (a) => (r) { r = Relu(a) }
    """
    header = '<ir_version: 10, opset_import: ["": 20, "local": 1]>\n'
    assert not NoCheck()(parse(text, header)).modified
    model = parse(text, header)
    assert InFunctions()(model).modified
    assert operators(next(iter(model.functions.values()))) == ["Abs"]


@pytest.mark.parametrize(
    ("base", "message"), [(RewriteRulePass, "has no pattern"), (RewriteRuleSetPass, "has no rules")]
)
def test_what_is_missing_is_said(base: type, message: str) -> None:
    incomplete = type("Incomplete", (Transformation, base), {})
    with pytest.raises(Exception, match=message):
        incomplete()(parse(TEXT))


class MisspeltPattern(Transformation, RewriteRulePass):
    def pattern(self, op, x, y):
        return op.Mull(x, y)

    def rewrite(self, op, x, y):
        return op.Add(x, y)


class MisspeltRewrite(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Relo(x)


class OperatorOfSomeoneElse(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.EfficientNMS_TRT(op.Mull(x, _domain="mine"))

    def rewrite(self, op, x):
        return op.Relu(x)


RELU = '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def test_an_operator_that_does_not_exist_is_named_with_the_nearest():
    model = ir.from_onnx_text(RELU)
    with pytest.raises(RegistrationError, match=r"has an operator 'Mull' that ONNX does not have; did you mean 'Mul'"):
        onnx_passes.apply(model, MisspeltPattern(), verify=False)
    with pytest.raises(RewriteError, match=r"builds 'Relo', which ONNX does not have; did you mean 'Relu'"):
        onnx_passes.apply(model, MisspeltRewrite(), verify=False)
    assert not onnx_passes.apply(model, OperatorOfSomeoneElse(), verify=False).modified
